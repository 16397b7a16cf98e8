"""Faults that tests inject, and how often each was tried: what `docs/failures.md` is made from.

    @pytest.mark.fault("a rank is killed (SIGKILL)")
    def test_...(harness: Harness, fault: Fault) -> None:
        ...
        fault(lost=lines_lost, told_seconds=seconds)

The mark names the fault; its target is `target=`, or the one that `harness` is parametrised with, or `local`. The test
calls the fixture once it has seen what it looks for. With KIT_FAULTS=long each test is tried `series=` times, or as
often as LONG says for its target; a case that is marked `series` is tried only then: another target or test shows the
same code. Each try, also a failed one, goes as a line of JSON to the file that KIT_FAULTS_FILE names; KIT_FAULTS_LIST
names a file for the faults and targets of all tests that are collected, also of those that are left out.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

LONG = {"local": 50, "compose": 10, "kubernetes": 5, "pytorchjob": 5, "indexed": 5, "ssh": 10, "slurm": 5}
"""How often a fault is tried in the long series, by target."""
IS_LONG = os.environ.get("KIT_FAULTS") == "long"
_TRY = "kit_try"


class Fault:
    """What a test reports of its try."""

    def __init__(self) -> None:
        self.reported: dict[str, float | None] = {}

    def __call__(self, *, lost: int | None = None, told_seconds: float | None = None) -> None:
        """Report the lines that the record lacks, and how long it took until the person was told, if either was."""
        self.reported = {"lost": lost, "told_seconds": None if told_seconds is None else round(told_seconds, 2)}

    @contextmanager
    def told(self) -> Iterator[None]:
        """Report that nothing could be lost, and that what stands in the block told the person."""
        began = time.monotonic()
        yield
        self(told_seconds=time.monotonic() - began)


FAULT = pytest.StashKey[Fault]()
PASSED = pytest.StashKey[bool]()


@pytest.fixture
def fault(request: pytest.FixtureRequest) -> Iterator[Fault]:
    """What the test reports its try to; a test that ends without a report has an error."""
    made = request.node.stash[FAULT] = Fault()
    yield made
    ended = request.node.stash.get(PASSED, False)
    assert made.reported or not ended, "the test has tried its fault and reports nothing: fault(lost=..., ...)"


def params_of(item: pytest.Item) -> dict[str, Any]:
    """Return what a test is parametrised with."""
    return getattr(getattr(item, "callspec", None), "params", {})


def named(item: pytest.Item) -> tuple[str, str] | None:
    """Return a test's fault and its target; None if it has no fault."""
    mark = item.get_closest_marker("fault")
    return (mark.args[0], mark.kwargs.get("target") or params_of(item).get("harness", "local")) if mark else None


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat each test that has a fault in the long series, for the target that is tried most often."""
    if IS_LONG and "fault" in metafunc.fixturenames:
        metafunc.fixturenames.append(_TRY)
        metafunc.parametrize(_TRY, range(max(LONG.values())), indirect=True)


@pytest.fixture(name=_TRY)
def _try(request: pytest.FixtureRequest) -> int:
    """The number of the try, from 0."""
    return int(request.param)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep as many tries as each target has."""

    def is_left(item: pytest.Item) -> bool:
        mark = item.get_closest_marker("fault")
        if not IS_LONG or mark is None:
            return not IS_LONG and item.get_closest_marker("series") is not None
        return bool(params_of(item)[_TRY] >= (mark.kwargs.get("series") or LONG[named(item)[1]]))  # type: ignore[index]

    if path := os.environ.get("KIT_FAULTS_LIST"):
        Path(path).write_text(json.dumps(sorted({own for item in items if (own := named(item))})), "utf-8")
    if left := [item for item in items if is_left(item)]:
        items[:] = [item for item in items if item not in left]
        config.hook.pytest_deselected(items=left)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[None]:  # the value of a wrapper is the report
    """Append the try to the file, in one write: workers of pytest-xdist write side by side."""
    report = yield
    if call.when == "call":
        item.stash[PASSED] = call.excinfo is None
        own, path = named(item), os.environ.get("KIT_FAULTS_FILE")
        if own and path and not (call.excinfo and call.excinfo.errisinstance(pytest.skip.Exception)):
            tried = {"fault": own[0], "target": own[1], "passed": call.excinfo is None, "lost": None}
            tried |= {"told_seconds": None, **item.stash[FAULT].reported}
            with open(path, "ab", 0) as file:  # noqa: PTH123 - unbuffered, in one write
                file.write(json.dumps(tried).encode() + b"\n")
    return report  # type: ignore[return-value]
