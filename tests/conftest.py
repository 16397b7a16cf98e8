"""What all tests share, and the engine that some of them need: left out in one line where there is none."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import settings

from runner.baseimages import NAMES, read_lock
from runner.engine import check_compose, reach
from runner.errors import RequestError

settings.register_profile("kit", deadline=None)  # two cores that several share make no promise about time
settings.load_profile("kit")

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files anew; then read the diff")


@pytest.fixture(scope="session")
def update_golden(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update-golden"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs an engine where there is none, unless KIT_REQUIRE names it."""
    need = [item for item in items if item.get_closest_marker("engine")]
    if not need or not (missing := missing_for_engine_tests()):
        return
    if "engine" in os.environ.get("KIT_REQUIRE", "").split():
        raise pytest.UsageError(missing)
    items[:] = [item for item in items if item not in need]
    config.hook.pytest_deselected(items=need)
    config.stash[LEFT_OUT] = (
        f"left out: {len(need)} tests of containers: {missing}; CONTRIBUTING.md says how to run them"
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if line := config.stash.get(LEFT_OUT, ""):
        terminalreporter.write_line(line, yellow=True)


def missing_for_engine_tests() -> str | None:
    """Look for an engine, for Compose and for base images that are here: a test run pulls no gigabytes."""
    try:
        client = reach()
        client.close()
        check_compose()
    except RequestError as error:
        return str(error)
    for name, locked in read_lock(ROOT).items():
        assert name in NAMES
        base = os.environ.get(name) or locked
        held = subprocess.run(["docker", "image", "inspect", base], capture_output=True, check=False)
        if held.returncode:
            return f"the engine does not hold the base image {base}: docker pull {base}, or name another with {name}"
    return None
