"""What a run printed and how it ended: what contradicts itself is a doubt, and the reason is the true one."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from runner.records.folder import begin
from runner.records.parse import reparse
from runner.records.schema import NodeExit, Outcome
from runner.report import formats
from runner.report.summarize import summarize
from tests.report.hostile import FORGED, HUGE, all_formats
from tests.support.records import Make, event_lines


def lines(*events: tuple[str, Any, dict[str, Any]]) -> bytes:
    """Event lines of rank 0, at 1000, 1001, ... ms."""
    return event_lines(0, list(events))


START = ("run_start", None, {"host": "here", "device_name": "Toy CPU", "machine_cores": 2})
STATS = ("tracked_stats", {"train_seconds": 2.0, "final_accuracy": 0.9}, {})
STOP = ("run_stop", None, {"status": "success"})
ABORTED = ("run_stop", None, {"status": "aborted"})
DOUBTFUL = [
    (lines(START, ("tracked_stats", {"train_seconds": -2.0}, {}), STATS, STOP), "train_seconds -2"),
    (lines(START, ("tracked_stats", {"loss": HUGE}, {}), STATS, STOP), "loss beyond 10^15"),
    (lines(START, STATS, STOP).replace(b": 1001,", b": 9000000,"), "backwards"),
    (lines(START, STATS, STOP).replace(b": 1000,", b": 9000000,"), "before it started"),
    (lines(START, STATS, STOP) + lines(START).replace(b"run_start", b"progress"), "sequence number"),
    (lines(START, START, STATS, STOP), "more than one run_start"),
    (lines(START, STATS, ABORTED, STOP), "more than one run_stop: aborted, then success"),
    (lines(START, STATS, STOP).replace(b'0, "seq": 1', b'1000000000, "seq": 1'), "impossible rank"),
]


def test_a_doubtful_run_is_noted_and_no_claim_rests_on_it(results: Path, make: Make) -> None:
    for seconds in (1.0, 1.01, 1.02):
        make.run(results, 2 * seconds)
        make.run(results, seconds, layout="1x2")
    assert True in [row["claimed"] for row in formats.to_rows(summarize(results)[0])]
    for printed, doubt in DOUBTFUL:
        bad = make.run(results, stdout={0: printed})
        doubts = bad.read().doubts
        assert doubt in str(doubts)
        rows, notes = all_formats(results)
        assert any("doubtful" in note and doubt in note for note in notes)
        assert True not in [row["claimed"] for row in rows]
        assert reparse(bad.path).doubts == doubts
        shutil.rmtree(bad.path)


def test_what_stopped_a_run_is_its_reason_in_one_printable_line(results: Path, make: Make) -> None:
    outcome = Outcome(ended="", wall_seconds=1.0, exits=[NodeExit(0, None, "SIGKILL")], stopped_because=FORGED)
    record = make.run(results, outcome=outcome).read()
    assert (record.status, record.reason[0]) == ("failed", "x")
    assert record.reason.isprintable()


FULL = Outcome(ended="", wall_seconds=1.0, exits=[NodeExit(0, 1)], stopped_because="the disk is full")


@pytest.mark.parametrize(
    ("outcome", "status", "reason"), [(None, "incomplete", "killed"), (FULL, "failed", "the disk is full")]
)
def test_a_run_whose_record_was_not_written_is_called_killed_only_if_nothing_else_is_known(
    results: Path, make: Make, outcome: Outcome | None, status: str, reason: str
) -> None:
    folder = begin(results, make.launch(runner={"host": os.uname().nodename, "pid": 1, "pid_started": 0.0}), "", "")
    (folder.raw / "node0-rank0.stdout").write_bytes(make.lines(0, 2.0))
    if outcome:
        folder.keep_outcome(outcome)
    assert ("record was not written" if outcome else "killed") in str(all_formats(results)[1])
    record = reparse(folder.path)
    assert (record.status, record.metrics["train_seconds"]) == (status, 2.0)
    assert reason in record.reason
