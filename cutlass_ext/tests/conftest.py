"""The harness that component tests run device code with."""

from __future__ import annotations

import pytest

from cutlass_ext.testing.device_code import Harness, Unit


def _units(module) -> list[Unit]:
    return [value for value in vars(module).values() if isinstance(value, Unit)]


@pytest.fixture(scope="session")
def all_units(request: pytest.FixtureRequest, device: str, mode: str) -> Harness:
    """Has the units of all collected test modules built at once."""
    modules = {id(item.module): item.module for item in request.session.items}
    harness = Harness(device, mode)
    harness.build([unit for module in modules.values() for unit in _units(module)])
    return harness


@pytest.fixture(scope="module")
def harness(request: pytest.FixtureRequest, all_units: Harness) -> Harness:
    """Runs test functions of this module's units; a unit that does not compile is an error here."""
    for unit in _units(request.module):
        all_units.load(unit)
    return all_units


@pytest.fixture(scope="module")
def logging_harness(harness: Harness) -> Harness:
    """The harness, for tests that read the access log."""
    if harness.device != "host":
        pytest.skip("accesses are logged on the host only")
    if harness.mode == "asan":
        pytest.skip("accesses are logged by the instrumented build, which other modes run")
    return harness
