"""The records of all targets are the same as that of target local, except for places and times."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contract.harness import Harness, Pods
from tests.contract.targets import TARGETS, on
from tests.support.launches import run_once
from tests.support.projects import Project
from tests.support.same_records import curve, differences

# On one worker, which makes the record of target local once.
pytestmark = pytest.mark.xdist_group("same records")
SMALL = ("--set", "epochs=2", "--set", "dataset=digits", "--set", "peak_milliseconds=0")
OTHERS = tuple(name for name in TARGETS if name != "local")


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.suffix != ".seen"}  # made only by target local


@pytest.fixture(scope="module")
def local() -> Callable[..., Any]:
    """Return a function that runs the cell on target local, once for all tests: record and names of raw files."""
    kept: list[tuple[dict[str, Any], set[str]]] = []

    def run(project: Project, *words: str) -> tuple[dict[str, Any], set[str]]:
        if not kept:
            _, record = run_once(project, *words, "--on", "local", "--device", "cpu")
            kept.append((record, names(project.results / "mnist" / record["launch"]["id"] / "raw")))
        return kept[0]

    return run


@on(*OTHERS)
def test_the_record_differs_from_that_of_local_in_nothing_but_places_and_times(
    harness: Harness, local: Callable[..., Any]
) -> None:
    words = ("mnist", "--layout", "1+2", *SMALL)
    done, there = harness.run(*words)
    assert done.code == 0, done.snapshot
    here, printed = local(harness.project, *words)
    assert len(curve(here)[0]) == 2
    assert curve(there) == curve(here)
    assert differences(there, here) == []
    for record in (there, here):
        assert record["events"]["seen"] == record["events"]["expected"]
    folder = harness.project.results / "mnist" / there["launch"]["id"]
    if not isinstance(harness, Pods):  # which have one stream of output, no files of the workers
        assert printed <= names(folder / "raw")
