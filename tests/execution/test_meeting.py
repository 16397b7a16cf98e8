"""Nodes started by hand find each other in a shared results folder, and node 0 names those that are missing."""

import os
from pathlib import Path

import pytest

from runner.core.errors import RunError
from runner.execution.node import YOUNG_SECONDS, Meeting, find
from runner.records.folder import RunFolder, begin
from tests.support.records import Make

WORK, OTHER = "a" * 64, "b" * 64


@pytest.fixture
def folder(tmp_path: Path, make: Make) -> RunFolder:
    return begin(tmp_path, make.launch(), "{}", "")


def names(results: Path) -> set[str]:
    return {path.name for path in (results / ".nodes").iterdir()}


def test_a_node_takes_only_a_young_run_of_the_same_work_and_leaves_no_file(tmp_path: Path, folder: RunFolder) -> None:
    Meeting(tmp_path, WORK, folder, 2)
    assert find(tmp_path, WORK, 1, print) == folder.path.name
    path = tmp_path / ".nodes" / WORK
    before = path.stat().st_mtime - YOUNG_SECONDS - 1
    for work in (OTHER, WORK):
        with pytest.raises(RunError, match="node 0"):
            find(tmp_path, work, 1, print, seconds=0)
        os.utime(path, (before, before))
    assert names(tmp_path) == {WORK}


def test_node_0_names_who_is_missing_and_whose_work_differs(tmp_path: Path, folder: RunFolder) -> None:
    meeting = Meeting(tmp_path, WORK, folder, 4)
    folder.open_agent(1).close()
    waiting = tmp_path / ".nodes" / f"{OTHER}.node2"
    waiting.touch()
    later = waiting.stat().st_mtime + 1
    os.utime(waiting, (later, later))
    differs, missing = meeting.missing().split("; ", 1)
    assert differs.startswith("node 2 has another")
    assert missing.startswith("node 3 ")
    assert folder.path.name in missing
    for node in (2, 3):
        folder.open_agent(node).close()
    assert meeting.missing() == ""


def test_what_a_later_run_of_the_same_work_has_written_stays(tmp_path: Path, folder: RunFolder, make: Make) -> None:
    first = Meeting(tmp_path, WORK, folder, 2)
    second = Meeting(tmp_path, WORK, begin(tmp_path, make.launch(id="later"), "{}", ""), 2)
    first.end()
    assert names(tmp_path) == {WORK}
    second.end()
    second.end()
    assert names(tmp_path) == set()
