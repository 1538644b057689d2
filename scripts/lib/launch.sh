# Sourced by the scripts: sets `root`, the repository, and `python`, an interpreter that has what
# the script needs. CUTLASS_EXT_PYTHON names one that is used as it is, with nothing installed.
# usage: source launch.sh PURPOSE      (a purpose of environment.py)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if [[ -n ${CUTLASS_EXT_PYTHON:-} ]]; then
  python=$CUTLASS_EXT_PYTHON
  export PYTHONPATH="$root/python${PYTHONPATH:+:$PYTHONPATH}"
else
  python=$(python3 "$root/scripts/lib/environment.py" "$1")
fi
