import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

import families  # noqa: E402

from cutlass_ext.fmha import dispatch  # noqa: E402

# Tests are spread over the cores; PyTorch's own threads, waiting for each other, would take theirs.
torch.set_num_threads(1)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`variant`: every family on the device; `our_variant`: those with kernels of ours."""
    device = metafunc.config.getoption("--device")
    for name, found in (("variant", families.variants), ("our_variant", families.ours)):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, found(device).values(), ids=found(device).keys())


@pytest.fixture(scope="session")
def torch_device(device: str) -> str:
    """Where tensors are."""
    return "cpu" if device == "host" else "cuda"


@pytest.fixture(scope="session", autouse=True)
def host_mode(mode: str) -> None:
    """Compiles the kernels that run on the CPU as `--mode` says."""
    dispatch.FAMILIES["host"].mode = mode
