"""Links, special files and runs that are no longer whole in a results folder: each is a note."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.core.errors import RequestError
from runner.records.finalize import derive, reparse
from runner.records.folder import RunFolder, begin
from runner.report.reading import read_results
from tests.report.hostile import all_formats, by_hand, state
from tests.support.patience import patient
from tests.support.records import Make


def fifo(folder: RunFolder) -> None:
    os.mkfifo(folder.raw / "node0-agent.log")
    os.mkfifo(folder.raw / "node0-exit.json")


def huge(folder: RunFolder) -> None:
    with (folder.raw / "node0-rank0.stdout").open("wb") as file:
        file.truncate(2**40)


ATTACKS: dict[str, Callable[[RunFolder], None]] = {
    "fifos": fifo,
    "a huge file": huge,
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
@pytest.mark.parametrize("by_hand", [True, False], ids=["by hand", "supervised"])
def test_special_and_huge_files_below_a_run_are_not_read(
    results: Path, make: Make, attack: Callable[[RunFolder], None], by_hand: bool
) -> None:
    make.run(results, 4.0)
    folder = begin(
        results,
        make.launch(by_hand=by_hand, runner={"host": os.uname().nodename, "pid": 1, "pid_started": 0.0}),
        "",
        "",
    )
    attack(folder)
    own = state(results)
    began = time.process_time()
    rows, notes = all_formats(results)
    assert sum(row["n"] for row in rows) == 1
    assert state(results) == own
    assert any(folder.path.name in note for note in notes)
    with_error = ""
    try:
        record = reparse(folder.path)
    except RequestError as error:
        with_error = str(error)
    else:
        assert record.status != "completed"
    assert "\n" not in with_error
    assert time.process_time() - began < patient(20)


def test_a_link_to_a_record_a_run_or_an_experiment_is_a_note(results: Path, tmp_path: Path, make: Make) -> None:
    elsewhere = make.run(tmp_path / "elsewhere", 9.0).path
    make.run(results, 4.0)
    (results / "linked experiment").symlink_to(elsewhere.parent)
    (results / "tiny" / "linked-run").symlink_to(elsewhere)
    (results / "tiny" / "linked-record").mkdir()
    (results / "tiny" / "linked-record" / "run.json").symlink_to(elsewhere / "run.json")
    (results / "tiny" / "a-fifo").mkdir()
    os.mkfifo(results / "tiny" / "a-fifo" / "run.json")
    rows, notes = all_formats(results)
    assert [row["seconds"] for row in rows] == [4.0]
    for name in ("linked experiment", "linked-run", "linked-record", "a-fifo"):
        assert sum(name in note and "left out" in note for note in notes) == 1, name


def test_a_run_is_not_begun_outside_of_the_results_folder(results: Path, make: Make) -> None:
    for name in ("../../x", "a/b", "", "-x"):
        with pytest.raises(RequestError, match="is no name for a folder"):
            begin(results, make.launch(id=name), "", "")
    results.mkdir()
    (results / "file").write_text("in the way")
    with pytest.raises(RequestError, match="cannot be written: .*; name another folder with --results"):
        begin(results, make.launch(experiment="file"), "", "")
    assert [path.name for path in results.iterdir()] == ["file"]


def test_a_run_that_is_there_already_is_not_removed_by_another_of_the_same_name(results: Path, make: Make) -> None:
    launch = make.launch()
    begin(results, launch, "", "")
    before = state(results)
    with pytest.raises(RequestError, match="cannot be written"):
        begin(results, launch, "", "")
    assert state(results) == before


def test_summarize_writes_nothing_below_results_not_even_for_a_run_that_was_started_by_hand(
    results: Path, make: Make
) -> None:
    folder = by_hand(results, make)
    before = state(results)
    for _ in range(2):
        rows, notes = all_formats(results)
        assert [(row["n"], row["seconds"], row["started_by_hand"]) for row in rows] == [(1, 2.0, 1)]
        assert "1x1: started by hand, so no runner supervised it: 1 of 1 runs" in notes
    assert state(results) == before
    assert reparse(folder.path).status == "completed"
    assert folder.read().status == "completed"
    assert sorted(path.name for path in folder.raw.iterdir()) == [
        "node0-exit.json", "node0-rank0.stdout", "outcome.json",
    ]  # fmt: skip
    assert all_formats(results)[0][0]["seconds"] == 2.0


def test_a_run_by_hand_that_still_runs_has_no_record_yet(results: Path, make: Make) -> None:
    folder = by_hand(results, make)
    with folder.held():
        assert derive(folder) is None
        assert [run.status for run in read_results(results).runs] == ["running"]
        with pytest.raises(RequestError, match="it still runs"):
            reparse(folder.path)
