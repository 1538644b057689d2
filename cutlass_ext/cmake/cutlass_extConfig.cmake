# find_package(cutlass_ext) defines cutlass_ext::cutlass_ext, an interface target with the include
# directories of these headers and of CUTLASS.
#
# The same file serves a source tree, an installed wheel (`python -m cutlass_ext --cmake-dir`) and
# `cmake --install`. CUTLASS is, in this order: the target nvidia::cutlass::cutlass of the project;
# the variable or environment variable CUTLASS_PATH (the folder that holds cutlass/cutlass.h); an
# installed CMake package NvidiaCutlass.

set(_cutlass_ext_include)
foreach(_folder
    "${CMAKE_CURRENT_LIST_DIR}/../include"             # source tree, wheel
    "${CMAKE_CURRENT_LIST_DIR}/../../fmha/include"     # source tree
    "${CMAKE_CURRENT_LIST_DIR}/../../../include")      # installed: <prefix>/share/cmake/cutlass_ext
  get_filename_component(_folder "${_folder}" ABSOLUTE)
  if(EXISTS "${_folder}/cutlass_ext" OR EXISTS "${_folder}/fmha")
    list(APPEND _cutlass_ext_include "${_folder}")
  endif()
endforeach()

if(NOT TARGET nvidia::cutlass::cutlass)
  if(NOT CUTLASS_PATH AND DEFINED ENV{CUTLASS_PATH})
    set(CUTLASS_PATH "$ENV{CUTLASS_PATH}")
  endif()
  if(NOT CUTLASS_PATH)
    find_package(NvidiaCutlass CONFIG QUIET)
  endif()
endif()

if(TARGET nvidia::cutlass::cutlass)
  set(_cutlass_ext_link nvidia::cutlass::cutlass)
elseif(CUTLASS_PATH AND EXISTS "${CUTLASS_PATH}/cutlass/cutlass.h")
  list(APPEND _cutlass_ext_include "${CUTLASS_PATH}")
  set(_cutlass_ext_link)
else()
  set(cutlass_ext_FOUND FALSE)
  set(cutlass_ext_NOT_FOUND_MESSAGE
    "CUTLASS was not found: set CUTLASS_PATH to the folder that holds cutlass/cutlass.h of CUTLASS 4.2.0.")
  return()
endif()

if(NOT TARGET cutlass_ext::cutlass_ext)
  add_library(cutlass_ext::cutlass_ext INTERFACE IMPORTED)
  set_target_properties(cutlass_ext::cutlass_ext PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${_cutlass_ext_include}"
    INTERFACE_LINK_LIBRARIES "${_cutlass_ext_link}")
  target_compile_features(cutlass_ext::cutlass_ext INTERFACE cxx_std_17)
endif()

unset(_cutlass_ext_include)
unset(_cutlass_ext_link)
unset(_folder)

# cutlass_ext_add_host_library(<target> <source.cu> [MODE plain|asan|instrumented] [ARCH 80])
#
# Compiles a CUDA source for the CPU, by `python -m cutlass_ext.host compile`: an imported library
# <target> that exports what the source does. Needs the Python package cutlass_ext, with what its
# extra `host` names, in the interpreter Python3_EXECUTABLE.
function(cutlass_ext_add_host_library target source)
  cmake_parse_arguments(PARSE_ARGV 2 host "" "MODE;ARCH" "")
  if(NOT host_MODE)
    set(host_MODE plain)
  endif()
  if(NOT host_ARCH)
    set(host_ARCH 80)
  endif()
  find_package(Python3 COMPONENTS Interpreter REQUIRED)
  get_filename_component(source "${source}" ABSOLUTE)
  set(library "${CMAKE_CURRENT_BINARY_DIR}/${CMAKE_SHARED_LIBRARY_PREFIX}${target}${CMAKE_SHARED_LIBRARY_SUFFIX}")
  add_custom_command(
    OUTPUT "${library}"
    COMMAND "${Python3_EXECUTABLE}" -m cutlass_ext.host compile "${source}" -o "${library}"
            --mode ${host_MODE} --arch ${host_ARCH}
    DEPENDS "${source}"
    VERBATIM)
  add_custom_target(${target}_build DEPENDS "${library}")
  add_library(${target} SHARED IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION "${library}" IMPORTED_NO_SONAME TRUE)
  add_dependencies(${target} ${target}_build)
endfunction()
