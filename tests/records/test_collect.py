"""Raw files -> Record: a pure parse, whatever the programs printed."""

import re
from pathlib import Path
from typing import Any

import pytest

from runner.core.layout import Layout
from runner.records.folder import begin
from runner.records.parse import collect
from runner.records.schema import NodeExit, Outcome, Record
from tests.support.records import Make, event_lines, make_lines

ENDED = "2026-11-21T00:01:00+00:00"


def told(key: str, value: object = None, rank: int = 0, **fields: object) -> bytes:
    return event_lines(rank, [(key, value, fields)])


def collected(place: Path, make: Make, stdout: dict[int, bytes], layout: str = "1x1", because: str = "") -> Record:
    exits = [NodeExit(node, 0) for node in range(Layout.parse(layout).nodes)]
    outcome = Outcome(ended=ENDED, wall_seconds=9.0, exits=exits, stopped_because=because or None)
    return make.run(place, stdout=stdout, layout=layout, outcome=outcome).read()


def test_the_slowest_rank_determines_the_times_of_a_run(tmp_path: Path, make: Make) -> None:
    stdout = {}
    for rank, seconds in enumerate((3.0, 5.0, 4.0)):
        events = [
            ("run_start", None, {"host": "h"}),
            ("init_stop", None, {"seconds": seconds}),
            ("init_stop", None, {"seconds": 1.0}),
            ("epoch_stop", None, {"epoch_num": 1, "train_seconds": seconds, "loss": rank, "samples": rank}),
            ("tracked_stats", {"train_seconds": seconds, "peak_bytes": rank, "loss": rank}, {}),
            ("run_stop", None, {"status": "success", "total_seconds": 8 - rank / 5}),
        ]
        stdout[rank] = event_lines(rank, events, first_ms=1_000 + 100 * rank, apart_ms=1_600 - 40 * rank)
    record = collected(tmp_path, make, stdout, "1x3")
    times = {"train_seconds": 5.0, "total_seconds": 8.0, "wall_seconds": 9.0}
    assert record.metrics == {**times, "peak_bytes": 2, "loss": 0}
    assert record.phases == {"init": 6.0}
    (epoch,) = record.epochs
    assert (epoch["train_seconds"], epoch["loss"], epoch["samples_by_rank"]) == (5.0, 0, {"0": 0, "1": 1, "2": 2})


@pytest.mark.parametrize(
    ("by_clock", "measured", "other", "kept", "is_set"),
    [
        (3_610, 10, "h", 10, True),
        (60, 3_660, "h", 3_660, True),
        (10_000, 10_090, "h", 10_000, False),
        (10_000, 10_090, "another host", 10_090, False),
    ],
)
def test_a_clock_that_was_set_is_a_doubt_and_clocks_of_two_hosts_are_not_compared(
    tmp_path: Path, make: Make, by_clock: int, measured: int, other: str, kept: int, is_set: bool
) -> None:
    stdout = {}
    for rank, (host, seconds, total) in enumerate([("h", by_clock, measured), (other, 8, 8)]):
        events = [("run_start", None, {"host": host}), ("run_stop", None, {"total_seconds": total})]
        stdout[rank] = event_lines(rank, events, apart_ms=1_000 * seconds)
    record = collected(tmp_path, make, stdout, "1x2")
    assert (record.metrics["total_seconds"], len(record.doubts)) == (kept, is_set)
    assert all("clock" in doubt and f" {by_clock} s" in doubt for doubt in record.doubts)


START = told("run_start")
ABORTED = {rank: told("run_stop", status="aborted" if rank else "success", rank=rank) for rank in range(2)}
WHOLE = [("run_start", None, {}), ("progress", None, {}), ("run_stop", None, {"status": "success"})]
# Rank 0 lacks an event, which an additional one of rank 1 does not replace.
LOST = {0: event_lines(0, WHOLE).replace(b'"seq": 1', b'"seq": 0'), 1: event_lines(1, [*WHOLE, WHOLE[1]])}


@pytest.mark.parametrize(
    ("stdout", "because", "status", "reason"),
    [
        ({0: START, 1: told("run_start", rank=1)}, "", "incomplete", "no run_stop from rank 0, 1"),
        ({0: make_lines(0, 1.0), 1: make_lines(0, 1.0)}, "", "incomplete", "no run_stop from rank 1"),
        (LOST, "", "incomplete", "1 of 7 events missing"),
        (ABORTED, "", "failed", "rank 1 "),
        ({0: START}, "interrupted", "interrupted", "Ctrl-C"),
        ({0: START}, "timed_out", "timed_out", "timeout_seconds: 60"),
        ({0: START}, "hung", "failed", "no progress"),
    ],
)
def test_a_run_that_did_not_complete_has_a_reason(
    tmp_path: Path, make: Make, stdout: dict[int, bytes], because: str, status: str, reason: str
) -> None:
    record = collected(tmp_path, make, stdout, "1x2", because)
    assert record.status == status
    assert reason in str(record.reason)


def test_malformed_lines_are_counted_and_the_first_is_shown(tmp_path: Path, make: Make) -> None:
    record = collected(tmp_path, make, {0: make.lines(0, 1.0) + b":::MLLOG {\x1b[31m\xff\n" * 100})
    (doubt,) = record.doubts
    assert (record.events["malformed"], record.status) == (100, "incomplete")
    assert doubt.startswith("100 malformed")
    assert "raw/node0-rank0.stdout:19: " in doubt
    assert doubt.isprintable()


def test_a_number_that_no_reader_supports_is_not_kept(tmp_path: Path, make: Make) -> None:
    record = collected(tmp_path, make, {0: make.lines(0, 1.0) + told("global_batch_size", 10**400)})
    assert record.facts["global_batch_size"] == 8
    assert "global_batch_size" in record.doubts[-1]


CHILD_ERROR = """
Root Cause (first observed failure):
[{first}]:
  time      : 2026-11-21_08:00:0{time}
  host      : here
  rank      : {rank} (local_rank: {rank})
  exitcode  : {code} (pid: 99)
  error_file: <N/A>
"""
LOST_PEER = "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1\n"


def failure(
    place: Path,
    make: Make,
    children: str,
    stderr: dict[int, str],
    exits: list[NodeExit],
    left: int = 0,
    stdout: bytes = b"",
    because: str | None = None,
) -> Any:
    """Children, as torchrun reports them, are `rank:exit code@second`; `left` others exited with code 0."""
    launch = make.launch(layout="1x3" if len(exits) == 1 else "2+1")
    layout = Layout.parse(launch.layout)
    folder = begin(place, launch, "", "")
    for rank, text in stderr.items():
        (folder.raw / f"node{layout.node_of(rank)}-rank{rank}.stderr").write_text(text)
    (folder.raw / "node0-rank0.stdout").write_bytes(stdout)
    reported = [tuple(map(int, re.split("[:@]", child))) for child in children.split()]
    for node in range(layout.nodes):
        own = [child for child in reported if layout.node_of(child[0]) == node]
        text = "".join(CHILD_ERROR.format(first=0, rank=rank, code=code, time=time) for rank, code, time in own)
        ended = range(len(layout.ranks_of(node)) - len(own) - left) if own else ()
        text += "".join(f"W1121 Sending process {pid} closing signal SIGTERM\n" for pid in ended)
        folder.agent(node).write_text(text or "of the agent\n")
    outcome = Outcome(ended=ENDED, wall_seconds=1.0, exits=exits, stopped_because=because)
    return collect(folder, launch, outcome).failure


HERE = [NodeExit(0, 1)]


@pytest.mark.parametrize(
    ("children", "stderr", "exits", "first", "last"),
    [
        # Not a victim; the earliest; the one with output; after a signal; on another node.
        ("0:1@1 1:3@1 2:1@1", {0: LOST_PEER, 1: "why\n", 2: LOST_PEER}, HERE, (1, 0, 3, None), "why"),
        ("0:1@5 1:2@4", {0: "a\n", 1: "why\n"}, HERE, (1, 0, 2, None), "why"),
        ("1:2@1 0:2@2", {0: "why\n", 1: ""}, HERE, (0, 0, 2, None), "why"),
        ("0:1@1 2:-11@2", {0: LOST_PEER, 2: "why\n"}, HERE, (2, 0, None, "SIGSEGV"), "why"),
        (
            "0:1@1 2:7@1",
            {0: LOST_PEER, 2: "why\n"},
            [NodeExit(0, 1, stopped=True), NodeExit(1, 1)],
            (2, 1, 7, None),
            "why",
        ),
        (
            "0:1@1",
            {0: LOST_PEER},
            [*HERE, NodeExit(1, None, "SIGKILL")],
            (None, 1, None, "SIGKILL"),
            "of the agent",
        ),
        ("", {}, HERE, (None, 0, 1, None), "of the agent"),
    ],
)
def test_the_first_failure_is_named(
    tmp_path: Path, make: Make, children: str, stderr: Any, exits: list[NodeExit], first: Any, last: str
) -> None:
    found = failure(tmp_path, make, children, stderr, exits)
    assert (found.rank, found.node, found.exit_code, found.signal) == first
    assert found.last_lines == [last]


@pytest.mark.parametrize(
    ("children", "left", "rank", "cause"),
    [("1:1@1 2:1@1", 1, 0, "rank 0 "), ("1:1@1", 1, None, "1 of the ranks 0, 2 "), ("1:1@1", 0, 1, "")],
)
def test_a_rank_that_left_with_exit_code_0_comes_before_those_that_lost_it(
    tmp_path: Path, make: Make, children: str, left: int, rank: int | None, cause: str
) -> None:
    stderr = {0: "early stopping\n", 1: LOST_PEER, 2: LOST_PEER}
    found = failure(tmp_path, make, children, stderr, HERE, left)
    assert found.rank == rank
    assert (found.cause or "").startswith(cause)


@pytest.mark.parametrize(
    ("error", "behind", "first"),
    [
        ("ValueError: the cause", "", (1, None)),
        ("ValueError: tried again", "step 40 loss 0.5\n", (0, 1)),
        (LOST_PEER.strip(), "", (0, 1)),
    ],
)
def test_a_rank_that_torchrun_ended_before_it_had_an_exit_code_is_the_first_by_its_own_exception(
    tmp_path: Path, make: Make, error: str, behind: str, first: tuple[int, int | None]
) -> None:
    lines = ("Traceback (most recent call last):", '  File "a.py", line 1, in f', error)
    own = "".join(f"[rank1]: {line}\n" for line in lines)
    found = failure(tmp_path, make, "0:1@1", {0: LOST_PEER, 1: own + behind, 2: ""}, HERE)
    assert (found.rank, found.exit_code) == first
    assert found.cause == (error if first[0] else None)


def test_a_launcher_may_name_a_rank_of_a_node_without_exit_report(tmp_path: Path, make: Make) -> None:
    folder = begin(tmp_path, make.launch(layout="2x1"), "", "")
    folder.agent(1).write_text(CHILD_ERROR.format(first=0, rank=0, code=1, time=1))
    outcome = Outcome(ended=ENDED, wall_seconds=1.0, exits=[NodeExit(1, 1)])
    found: Any = collect(folder, folder.launch(), outcome).failure
    assert (found.rank, found.node, found.exit_code) == (0, 0, 1)


@pytest.mark.parametrize(("status", "lines"), [("aborted", ["error: why"]), ("success", [])])
def test_an_aborted_first_rank_of_a_node_speaks_for_one_without_output(
    tmp_path: Path, make: Make, status: str, lines: list[str]
) -> None:
    found = failure(tmp_path, make, "1:2@1", {0: "error: why\n", 1: ""}, HERE, stdout=told("run_stop", status=status))
    assert (found.rank, found.exit_code, found.last_lines) == (1, 2, lines)


def test_last_lines_are_few_and_without_events(tmp_path: Path, make: Make) -> None:
    text = "".join(f"line {number}\n\n" for number in range(5_000)) + ":::MLLOG {}\n"
    found = failure(tmp_path, make, "1:1@1", {1: text}, HERE)
    assert found.last_lines == [f"line {number}" for number in range(4_980, 5_000)]


def test_an_accuracy_outside_0_to_1_in_a_log_is_a_doubt(tmp_path: Path, make: Make) -> None:
    line = b"Test set: Average loss: 0.1, Accuracy: 983/10 (9830%)\n"
    record = make.run(tmp_path, stdout={0: line}, dialects={"pytorch-mnist": ""}).read()
    (doubt,) = record.doubts
    assert "accuracy" in doubt
    assert "final_accuracy" not in record.metrics
    assert not record.evaluations
