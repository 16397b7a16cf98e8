"""Faults that tests inject, and how often each was tried: what `docs/failures.md` is made from.

    @pytest.mark.fault("a rank is killed (SIGKILL)")
    def test_...(harness: Harness, fault: Fault) -> None:
        ...
        fault(lost=lines_lost, told_seconds=seconds)

The mark names the fault; its target is `target=`, or the one that `harness` is parametrised with, or `local`. The test
calls the fixture once it has seen what it looks for. KIT_FAULTS says how often each test is tried: `long` for the long
series, a number, or `local=5,compose=2`; by default once. `series=20` in the mark is another length of the long series.
A case that is marked `series` is tried only if KIT_FAULTS asks: another target or test shows the same code.
Each try, also a failed one, goes as a line of JSON to the file that KIT_FAULTS_FILE names; KIT_FAULTS_LIST names a file
for the faults and targets of all tests that are collected, also of those that are left out.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

LONG = {"local": 50, "compose": 10, "kubernetes": 5, "pytorchjob": 5, "indexed": 5, "ssh": 10, "slurm": 5}
"""How often a fault is tried in the long series, by target."""
MARK = "fault"
_TRY = "kit_try"


@dataclass(frozen=True)
class Try:
    """One try of a fault.

    Args:
        fault: its name.
        target: where it was tried.
        passed: whether all that is promised was kept.
        lost: lines of the processes that the record lacks; None if nothing could be lost.
        told_seconds: how long it took until the person was told; None if there was nobody to tell.
    """

    fault: str
    target: str
    passed: bool = False
    lost: int | None = None
    told_seconds: float | None = None


class Fault:
    """What a test reports of its try."""

    def __init__(self) -> None:
        self.reported: tuple[int | None, float | None] | None = None

    def __call__(self, *, lost: int | None = None, told_seconds: float | None = None) -> None:
        """Report the try: lines lost, and after how many seconds the person was told."""
        self.reported = (lost, None if told_seconds is None else round(told_seconds, 2))

    @contextmanager
    def told(self) -> Iterator[None]:
        """Report that nothing could be lost, and that what stands in the block told the person."""
        began = time.monotonic()
        yield
        self(told_seconds=time.monotonic() - began)


FAULT = pytest.StashKey[Fault]()


@pytest.fixture
def fault(request: pytest.FixtureRequest) -> Iterator[Fault]:
    """What the test reports its try to; a test that ends without a report has an error."""
    made = request.node.stash[FAULT] = Fault()
    yield made
    ended = getattr(request.node, "kit_passed", False)
    assert made.reported or not ended, "the test has tried its fault and reports nothing: fault(lost=..., ...)"


def times(target: str, series: int | None = None) -> int:
    """Return how often a fault of a target is tried."""
    asked = os.environ.get("KIT_FAULTS", "")
    if asked == "long":
        return series or LONG[target]
    if asked.isdecimal():
        return int(asked)
    chosen = dict(word.split("=", 1) for word in asked.split(",") if word)
    return int(chosen.get(target, 1))


def named(item: pytest.Item) -> tuple[str, str, int | None] | None:
    """Return a test's fault, its target, and the length of its long series; None if it has no fault."""
    mark = item.get_closest_marker(MARK)
    if mark is None:
        return None
    if MARK not in getattr(item, "fixturenames", ()):
        raise pytest.UsageError(f"{item.nodeid}: a test marked `{MARK}` takes the fixture `{MARK}` and reports to it")
    params = getattr(getattr(item, "callspec", None), "params", {})
    target = mark.kwargs.get("target") or params.get("harness", "local")
    assert target in LONG, f"{item.nodeid}: {target} is no target"
    return mark.args[0], target, mark.kwargs.get("series")


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat each test that has a fault, for the target that is tried most often."""
    if MARK not in metafunc.fixturenames:
        return
    series = [mark.kwargs.get("series") for mark in metafunc.definition.iter_markers(MARK)]
    most = max(times(target, length) for target in LONG for length in (series or [None]))
    if most > 1:
        metafunc.fixturenames.append(_TRY)
        metafunc.parametrize(_TRY, range(most), ids=[f"try{number}" for number in range(1, most + 1)], indirect=True)


@pytest.fixture(name=_TRY)
def _try(request: pytest.FixtureRequest) -> int:
    """The number of the try, from 0."""
    return int(request.param)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep as many tries as each target has."""
    kept, left, found = [], [], set()
    for item in items:
        own = named(item)
        if own:
            found.add(own[:2])
        params = getattr(getattr(item, "callspec", None), "params", {})
        most = times(*own[1:]) if own else 1
        if item.get_closest_marker("series") and not os.environ.get("KIT_FAULTS"):
            most = 0
        (left if params.get(_TRY, 0) >= most else kept).append(item)
    if left:
        items[:] = kept
        config.hook.pytest_deselected(items=left)
    if path := os.environ.get("KIT_FAULTS_LIST"):
        Path(path).write_text(json.dumps(sorted(found)), "utf-8")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[None]:  # the value of a wrapper is the report
    """Append the try to the file, in one write: workers of pytest-xdist write side by side."""
    report = yield
    if call.when == "call":
        item.kit_passed = call.excinfo is None  # type: ignore[attr-defined]
        own, path = named(item), os.environ.get("KIT_FAULTS_FILE")
        if own and path and not (call.excinfo and call.excinfo.errisinstance(pytest.skip.Exception)):
            lost, told = item.stash[FAULT].reported or (None, None)
            tried = Try(own[0], own[1], passed=call.excinfo is None, lost=lost, told_seconds=told)
            with open(path, "ab", 0) as file:  # noqa: PTH123 - unbuffered, in one write
                file.write(json.dumps(asdict(tried)).encode() + b"\n")
    return report  # type: ignore[return-value]
