"""What every test of the repository shares: where device code runs, how, and how many examples."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# Imported before any test is collected: pytest names test modules after their folders, and would
# otherwise take the C++ folder `cutlass_ext` at the root for the package.
import cutlass_ext  # noqa: F401

_COMMON = {
    "deadline": None,  # a first example may build a kernel
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    "print_blob": True,
}
settings.register_profile("quick", max_examples=20, **_COMMON)
settings.register_profile("ci", max_examples=200, **_COMMON)
settings.register_profile("deep", max_examples=10_000, **_COMMON)
settings.load_profile("ci")  # `--hypothesis-profile` comes later and wins


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cutlass_ext")
    group.addoption(
        "--device",
        choices=("host", "cuda"),
        default="host",
        help="where device code runs: on the CPU (default) or on the GPU",
    )
    group.addoption(
        "--mode",
        choices=("plain", "asan", "instrumented"),
        default="plain",
        help="how it is compiled for the CPU: plain (default), with AddressSanitizer, or with the "
        "race check",
    )
    group.addoption(
        "--share",
        metavar="I/N",
        help="run the Ith of N shares of each property's examples: N processes with `-m hypothesis "
        "--share 1/N` ... together run as many as the profile says, each drawing its own",
    )


@pytest.hookimpl(trylast=True)  # the plugin of Hypothesis loads the profile that was asked for
def pytest_configure(config: pytest.Config) -> None:
    share = config.getoption("--share")
    if share is None:
        return
    index, _, count = share.partition("/")
    if not (index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
        raise pytest.UsageError(f"--share is {share!r}: pass I/N with I from 1 to N, such as 1/16")
    examples = -(-settings.default.max_examples // int(count))
    settings.register_profile("share", settings.default, max_examples=examples)
    settings.load_profile("share")


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> str:
    """`"host"` or `"cuda"`: where device code runs."""
    return request.config.getoption("--device")


@pytest.fixture(scope="session")
def mode(request: pytest.FixtureRequest) -> str:
    """`"plain"`, `"asan"` or `"instrumented"`: how code for the host is compiled."""
    return request.config.getoption("--mode")
