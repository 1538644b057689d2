"""Build for this machine's GPU all that the tests and the benchmark run, ahead of time."""

import argparse
import importlib.util
import sys
import time
from pathlib import Path

from cutlass_ext import jit
from cutlass_ext.fmha import kernels
from cutlass_ext.testing.device_code import Unit

ROOT = Path(__file__).resolve().parents[2]
COMPONENT_TESTS = ROOT / "cutlass_ext" / "tests"


def component_units() -> list[Unit]:
    """The translation units that the components' test modules declare."""
    units = []
    for path in sorted(COMPONENT_TESTS.rglob("test_*.py")):
        if path.parent == COMPONENT_TESTS / "host":
            continue  # for the CPU alone
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
        units += [value for value in vars(module).values() if isinstance(value, Unit)]
    return units


def main() -> int:
    """Build everything; 1 where there is no GPU, and BuildError where a source is refused."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=None, help="compilers at once; default: cores")
    arguments = parser.parse_args()
    targets = jit.targets()
    if not targets:
        print("No GPU was found, and CUTLASS_EXT_ARCHS names no architecture.")
        return 1
    specs = [spec for target in targets for spec in kernels.all_specs(target)]
    specs += [unit.spec("cuda", "plain") for unit in component_units()]
    start = time.monotonic()
    jit.module()
    libraries = jit.build(specs, jobs=arguments.jobs)
    print(f"{len(libraries)} libraries for {', '.join(targets)}: {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
