"""Fixtures that every scenario shares. All of them need root."""
import os

import pytest

from lab import Lab, Mesh, wait_ping


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Adds the end of every daemon's log to the report of a test that failed."""
    outcome = yield
    report = outcome.get_result()
    for made in getattr(item, "funcargs", {}).values():
        if report.when == "call" and report.failed and hasattr(made, "log_tails"):
            report.sections += made.log_tails()


@pytest.fixture
def lab():
    """A Lab whose namespaces, daemons and files are gone when the test ends, whatever happened."""
    if os.geteuid() != 0:
        pytest.fail("a scenario makes network namespaces: run it as root", pytrace=False)
    with Lab() as made:
        yield made


@pytest.fixture
def mesh(lab):
    """Two nodes with a link that is up and carries packets."""
    made = Mesh(lab, 2)
    made.start()
    made.wait_up()
    wait_ping(made.spaces[0], made.inner(2))
    return made
