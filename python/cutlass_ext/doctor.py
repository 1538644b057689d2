"""What this machine has for building and running kernels, and what it lacks."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cutlass_ext
from cutlass_ext.jit import cache, gpu, toolchain

_BUILD_TOOLS = ("g++", "ninja", "pybind11", "CUTLASS", "cache")
_CUDA_TOOLS = (*_BUILD_TOOLS, "nvcc", "GPU", "driver")
# nvcc 13 compiles for Turing and newer.
_OLDEST_CAPABILITY = (7, 5)


@dataclass(frozen=True)
class Finding:
    """One line of the report; `problem` is a sentence with the mend where something is amiss."""

    name: str
    found: str
    problem: str | None = None


@dataclass(frozen=True)
class Family:
    """A family of kernels, what it needs, and the oldest GPU that it runs on."""

    name: str
    what: str
    needs: tuple[str, ...]
    capability: tuple[int, int] | None = None


FAMILIES = (
    Family("torch", "attention in torch operations", ("torch",)),
    Family("sdpa", "PyTorch's own kernels", ("torch",)),
    Family(
        "host",
        "device templates on the CPU",
        ("torch", *_BUILD_TOOLS, "CUTLASS of the host build", "CUDA headers"),
    ),
    Family("simt", "f32 without tensor cores", ("torch", *_CUDA_TOOLS), _OLDEST_CAPABILITY),
    Family("sm80", "f16, bf16, tf32 tensor cores", ("torch", *_CUDA_TOOLS), (8, 0)),
)


@dataclass(frozen=True)
class Report:
    """All findings; `gpus` are the devices that the driver sees."""

    findings: tuple[Finding, ...]
    gpus: tuple[gpu.Gpu, ...]

    def obstacles(self, family: Family) -> list[str]:
        """Why the family can't run here; empty where it can."""
        found = [
            finding.problem
            for finding in self.findings
            if finding.name in family.needs and finding.problem
        ]
        if family.capability and self.gpus:
            best = max(device.capability for device in self.gpus)
            if best < family.capability:
                needed, have = (f"sm_{a}{b}" for a, b in (family.capability, best))
                found.append(f"The GPU is {have}: {family.name} needs {needed} or newer.")
        return found

    def usable(self) -> bool:
        """True where any family can run."""
        return any(not self.obstacles(family) for family in FAMILIES)

    def text(self) -> str:
        """The report for a terminal."""
        width = max(len(finding.name) for finding in self.findings)
        lines = [f"{finding.name:<{width}}  {finding.found}" for finding in self.findings]
        lines += ["", "families"]
        missing: dict[str, None] = {}
        for family in FAMILIES:
            obstacles = self.obstacles(family)
            state = "ready" if not obstacles else "not here"
            lines.append(f"  {family.name:<6} {state:<9} {family.what}")
            missing.update(dict.fromkeys(obstacles))
        if missing:
            lines += ["", "missing"]
            lines += [f"  - {sentence}" for sentence in missing]
        return "\n".join(lines)


def examine() -> Report:
    """Looks at the machine: compilers, headers, GPU and driver, cache. Builds nothing."""
    driver = gpu.driver()
    findings = [
        Finding("cutlass_ext", f"{cutlass_ext.__version__} ({Path(cutlass_ext.__file__).parent})"),
        Finding("Python", platform.python_version()),
        _torch(),
        _look("g++", toolchain.find_gxx, lambda gxx: f"{gxx.version} ({gxx.path})"),
        _look(
            "nvcc",
            toolchain.find_nvcc,
            lambda nvcc: f"{nvcc.version} ({nvcc.path}, toolkit {nvcc.toolkit})",
        ),
        _look("CUDA headers", toolchain.find_cuda_include, lambda folders: str(folders[0])),
        *_cutlass(),
        _look("ninja", toolchain.find_ninja, str),
        _look("pybind11", toolchain.find_binding_include, lambda folders: str(folders[-1])),
        _gpu(driver),
        _driver(driver),
        _look("cache", cache.root, _cache_text),
    ]
    return Report(tuple(findings), driver.gpus if driver else ())


def _look(name: str, find: Callable, describe: Callable[..., str]) -> Finding:
    try:
        return Finding(name, describe(find()))
    except (toolchain.ToolchainError, cache.CacheError) as error:
        return Finding(name, "not found" if name != "cache" else "unusable", str(error))


def _torch() -> Finding:
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return Finding("torch", "not found", "PyTorch was not found: run `pip install torch`.")
    return Finding("torch", version)


def _cutlass() -> list[Finding]:
    """CUTLASS, and whether the host build accepts its version."""
    try:
        folder = toolchain.find_cutlass()
        version = toolchain.cutlass_version(folder)
    except toolchain.ToolchainError as error:
        return [Finding("CUTLASS", "not found", str(error))]
    found = [Finding("CUTLASS", f"{_dotted(version)} ({folder})")]
    if version != toolchain.TESTED_CUTLASS:
        wanted = _dotted(toolchain.TESTED_CUTLASS)
        found.append(
            Finding(
                "CUTLASS of the host build",
                f"{_dotted(version)} is not {wanted}",
                f"The host build translates CUTLASS {wanted} and found {_dotted(version)}: run "
                "`pip install --no-deps nvidia-cutlass==4.2.0.0`, or set CUTLASS_PATH to it.",
            )
        )
    return found


def _gpu(driver: gpu.Driver | None) -> Finding:
    if driver is None or not driver.gpus:
        return Finding("GPU", "none", "No NVIDIA GPU was found: op='host' runs kernels on the CPU.")
    names = [f"{device.name} ({device.target})" for device in driver.gpus]
    return Finding("GPU", ", ".join(dict.fromkeys(names)))


def _driver(driver: gpu.Driver | None) -> Finding:
    if driver is None:
        return Finding("driver", "none")
    runs = f"runs programs of CUDA {_dotted(driver.cuda)}"
    try:
        nvcc = toolchain.find_nvcc()
    except toolchain.ToolchainError:
        return Finding("driver", runs)
    # Within a major version a newer toolkit's programs run on an older driver.
    if driver.cuda[0] < int(nvcc.version.split(".")[0]):
        return Finding(
            "driver",
            f"{runs}, older than nvcc {nvcc.version}",
            f"The driver runs programs of CUDA {_dotted(driver.cuda)} at most and nvcc is "
            f"{nvcc.version}: update the driver, or set CUDA_HOME to a toolkit of its version.",
        )
    return Finding("driver", f"{runs}, fits nvcc {nvcc.version}")


def _cache_text(folder: Path) -> str:
    libraries = [path.stat().st_size for path in folder.glob("kernels/*/*/*.so")]
    return f"{folder} ({len(libraries)} libraries, {sum(libraries) / 2**20:.1f} MiB)"


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
