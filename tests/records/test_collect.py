"""Raw files -> Record: a pure parse, whatever the programs printed."""

import json
from pathlib import Path
from typing import Any

import pytest

from runner.core.layout import Layout
from runner.records.folder import begin
from runner.records.parse import collect
from runner.records.schema import NodeExit, Outcome, Record
from tests.support.records import Make, make_lines

ENDED = "2026-11-21T00:01:00+00:00"


def told(key: str, value: object = None, time: float = 1000, **metadata: object) -> bytes:
    return (
        b":::MLLOG " + json.dumps({"time_ms": time, "key": key, "value": value, "metadata": metadata}).encode() + b"\n"
    )


def collected(place: Path, make: Make, stdout: dict[int, bytes], layout: str = "1x1", **outcome: Any) -> Record:
    nodes = Layout.parse(layout).nodes
    seen = Outcome(
        **{"ended": ENDED, "wall_seconds": 9.0, "exits": [NodeExit(node, 0) for node in range(nodes)], **outcome}
    )
    return make.run(place, stdout=stdout, layout=layout, outcome=seen).read()


def test_the_slowest_rank_s_times_are_the_run_s(tmp_path: Path, make: Make) -> None:
    def printed(rank: int, seconds: float) -> bytes:
        stats = {"train_seconds": seconds, "peak_bytes": rank, "loss": rank}
        events: list[tuple[str, Any, dict[str, Any]]] = [
            ("run_start", None, {"host": "h", "time": 1_000 + rank * 100}),
            ("init_stop", None, {"seconds": seconds}),
            ("init_stop", None, {"seconds": 1.0}),
            ("epoch_stop", None, {"epoch_num": 1, "train_seconds": seconds, "loss": rank, "samples": rank}),
            ("tracked_stats", stats, {}),
            ("run_stop", None, {"status": "success", "total_seconds": 8 - rank / 5, "time": 9_000 - rank * 100}),
        ]
        return b"".join(told(key, value, rank=rank, seq=seq, **more) for seq, (key, value, more) in enumerate(events))

    record = collected(tmp_path, make, {rank: printed(rank, (3.0, 5.0, 4.0)[rank]) for rank in range(3)}, "1x3")
    times = {"train_seconds": 5.0, "total_seconds": 8.0, "wall_seconds": 9.0}
    assert record.metrics == {**times, "peak_bytes": 2, "loss": 0}
    assert record.phases == {"init": 6.0}
    (epoch,) = record.epochs
    assert (epoch["train_seconds"], epoch["loss"], epoch["samples_by_rank"]) == (5.0, 0, {"0": 0, "1": 1, "2": 2})


def whole_run(rank: int, stop_ms: float, measured: float) -> bytes:
    stop = told("run_stop", status="success", total_seconds=measured, rank=rank, seq=1, time=stop_ms)
    return told("run_start", host="h", rank=rank, seq=0, time=1_000) + stop


@pytest.mark.parametrize(
    ("by_clock", "measured", "kept", "doubts"),
    [
        (3_610.0, 10.0, 10.0, ["3610 s"]),
        (60.0, 3_660.0, 3_660.0, ["3660 s"]),
        (10_000.0, 10_090.0, 10_000.0, []),
    ],
)
def test_a_clock_that_was_set_makes_no_time_of_a_run_and_is_a_doubt_while_small_differences_are_none(
    tmp_path: Path, make: Make, by_clock: float, measured: float, kept: float, doubts: list[str]
) -> None:
    stdout = {0: whole_run(0, 1_000 + 1_000 * by_clock, measured), 1: whole_run(1, 9_000, 8.0)}
    record = collected(tmp_path, make, stdout, "1x2")
    assert (record.metrics["total_seconds"], len(record.doubts)) == (kept, len(doubts))
    assert all(word in said for word, said in zip(doubts, record.doubts, strict=True))


def test_clocks_of_two_hosts_are_not_compared(tmp_path: Path, make: Make) -> None:
    stdout = {0: whole_run(0, 10_001_000, 10_090.0), 1: whole_run(1, 9_000, 8.0).replace(b'"h"', b'"other"')}
    assert collected(tmp_path, make, stdout, "2x1").metrics["total_seconds"] == 10_090.0


def test_a_missing_event_of_one_rank_is_not_made_up_for_by_another(tmp_path: Path, make: Make) -> None:
    whole = b"".join(told("progress", rank=1, seq=seq) for seq in range(4))
    late = told("run_stop", status="success", rank=1, seq=2)
    stdout = {0: told("run_start", rank=0, seq=0) + told("run_stop", status="success", rank=0, seq=2), 1: whole + late}
    record = collected(tmp_path, make, stdout, "1x2")
    assert record.status == "incomplete"
    assert record.events == {"seen": 6, "expected": 7, "malformed": 0}


START = told("run_start", rank=0, seq=0)
ABORTED = {rank: told("run_stop", status="aborted" if rank else "success", rank=rank, seq=0) for rank in range(2)}


@pytest.mark.parametrize(
    ("stdout", "because", "status", "says"),
    [
        ({0: START, 1: told("run_start", rank=1, seq=0)}, None, "incomplete", "no run_stop from rank 0, 1"),
        ({0: make_lines(0, 1.0), 1: make_lines(0, 1.0)}, None, "incomplete", "no run_stop from rank 1"),
        (ABORTED, None, "failed", "rank 1"),
        ({0: START}, "interrupted", "interrupted", "stopped by Ctrl-C or a signal to the runner"),
        ({0: START}, "timed_out", "timed_out", "not done after timeout_seconds: 60"),
        ({0: START}, "hung", "failed", "no progress"),
    ],
)
def test_a_run_that_is_not_completed_says_why(
    tmp_path: Path, make: Make, stdout: dict[int, bytes], because: str | None, status: str, says: str
) -> None:
    record = collected(tmp_path, make, stdout, "1x2", stopped_because=because)
    assert record.status == status
    assert says in str(record.reason)


def test_many_broken_lines_are_counted_and_the_first_is_shown(tmp_path: Path, make: Make) -> None:
    record = collected(tmp_path, make, {0: make.lines(0, 1.0) + b":::MLLOG {\x1b[31m\xff\n" * 100})
    (doubt,) = record.doubts
    assert (record.events["malformed"], record.status) == (100, "incomplete")
    assert doubt.startswith("100 malformed event lines, the first is raw/node0-rank0.stdout:19: ")
    assert doubt.isprintable()


def test_a_number_that_no_reader_carries_makes_no_fact(tmp_path: Path, make: Make) -> None:
    record = collected(tmp_path, make, {0: make.lines(0, 1.0) + told("global_batch_size", 10**400, rank=0)})
    assert record.facts["global_batch_size"] == 8
    assert "global_batch_size" in record.doubts[0]


CHILD_ERROR = """
Root Cause (first observed failure):
[{first}]:
  time      : 2026-11-21_08:00:0{time}
  host      : here
  rank      : {rank} (local_rank: {rank})
  exitcode  : {code} (pid: 99)
  error_file: <N/A>
"""
LOST = "RuntimeError: [../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1\n"


def failure(
    place: Path,
    make: Make,
    children: list[tuple[int, int, int]],
    stderr: dict[int, str],
    exits: list[NodeExit],
    left: int = 0,
    stdout: bytes = b"",
    because: str | None = None,
) -> Any:
    """Children as (rank, exit code, second), as torchrun names them; of the others so many had left with code 0."""
    launch = make.launch(layout="1x3" if len(exits) == 1 else "2+1")
    layout = Layout.parse(launch.layout)
    folder = begin(place, launch, "", "")
    for rank, text in stderr.items():
        (folder.raw / f"node{layout.node_of(rank)}-rank{rank}.stderr").write_text(text)
    (folder.raw / "node0-rank0.stdout").write_bytes(stdout)
    for node in range(layout.nodes):
        own = [child for child in children if layout.node_of(child[0]) == node]
        text = "".join(CHILD_ERROR.format(first=0, rank=rank, code=code, time=time) for rank, code, time in own)
        ended = range(len(layout.ranks_of(node)) - len(own) - left) if own else ()
        text += "".join(f"W1121 Sending process {pid} closing signal SIGTERM\n" for pid in ended)
        folder.agent(node).write_text(text or "the agent's own last words\n")
    outcome = Outcome(ended=ENDED, wall_seconds=1.0, exits=exits, stopped_because=because)
    return collect(folder, launch, outcome).failure


HERE = [NodeExit(0, 1)]
FIRST = {
    "not a victim": ([(0, 1, 1), (1, 3, 1), (2, 1, 1)], {0: LOST, 1: "why\n", 2: LOST}, HERE, (1, 0, 3, None)),
    "the earliest": ([(0, 1, 5), (1, 2, 4)], {0: "a\n", 1: "why\n"}, HERE, (1, 0, 2, None)),
    "who says why": ([(1, 2, 1), (0, 2, 2)], {0: "why\n", 1: ""}, HERE, (0, 0, 2, None)),
    "killed by a signal": ([(0, 1, 1), (2, -11, 2)], {0: LOST, 2: "why\n"}, HERE, (2, 0, None, "SIGSEGV")),
    "on another node": (
        [(0, 1, 1), (2, 7, 1)],
        {0: LOST, 2: "why\n"},
        [NodeExit(0, 1, stopped=True), NodeExit(1, 1)],
        (2, 1, 7, None),
    ),
}
OF_LAUNCHERS = {
    "killed before its victims": (
        [(0, 1, 1)],
        {0: LOST},
        [NodeExit(0, 1), NodeExit(1, None, "SIGKILL")],
        (None, 1, None, "SIGKILL"),
    ),
    "without a child": ([], {}, HERE, (None, 0, 1, None)),
}


@pytest.mark.parametrize("case", [*FIRST, *OF_LAUNCHERS])
def test_who_failed_first_is_named(tmp_path: Path, make: Make, case: str) -> None:
    children, stderr, exits, first = {**FIRST, **OF_LAUNCHERS}[case]
    found = failure(tmp_path, make, children, stderr, exits)
    assert (found.rank, found.node, found.exit_code, found.signal) == first
    assert found.last_lines == ["why" if case in FIRST else "the agent's own last words"]


@pytest.mark.parametrize(
    ("children", "left", "rank", "words"),
    [
        ([(1, 1, 1), (2, 1, 1)], 1, 0, "rank 0 "),
        ([(1, 1, 1)], 1, None, "1 of the ranks 0, 2 "),
    ],
)
def test_a_rank_that_left_with_exit_code_0_is_the_first_where_others_failed_by_losing_it(
    tmp_path: Path, make: Make, children: list[tuple[int, int, int]], left: int, rank: int | None, words: str
) -> None:
    found = failure(tmp_path, make, children, {0: "early stopping\n", 1: LOST, 2: LOST}, HERE, left)
    assert found.rank == rank
    assert found.cause.startswith(words)
    assert failure(tmp_path / "x", make, [(1, 1, 1)], {1: LOST}, HERE).rank == 1, "nobody had left"


OWN = '[rank1]: Traceback (most recent call last):\n[rank1]:   File "a.py", line 1, in f\n[rank1]: {error}\n'


@pytest.mark.parametrize(
    ("error", "behind", "first"),
    [
        ("ValueError: the cause", "", (1, None)),
        ("ValueError: tried again", "step 40 loss 0.5\n", (0, 1)),
        ("RuntimeError: Connection closed by peer [127.0.0.1]:1", "", (0, 1)),
    ],
)
def test_a_rank_that_its_launcher_ended_before_it_had_an_exit_code_is_the_first_by_its_own_exception(
    tmp_path: Path, make: Make, error: str, behind: str, first: tuple[int, int | None]
) -> None:
    found = failure(tmp_path, make, [(0, 1, 1)], {0: LOST, 1: OWN.format(error=error) + behind, 2: ""}, HERE)
    assert (found.rank, found.exit_code) == first
    assert found.cause == (error if first[0] else None)


def test_a_launcher_may_name_a_rank_of_a_node_that_reported_no_end(tmp_path: Path, make: Make) -> None:
    launch = make.launch(layout="2x1")
    folder = begin(tmp_path, launch, "", "")
    folder.agent(1).write_text("time : x\nrank : 0 (local_rank: 0)\nexitcode : 1\n")
    found: Any = collect(folder, launch, Outcome(ended=ENDED, wall_seconds=1.0, exits=[NodeExit(1, 1)])).failure
    assert (found.rank, found.node, found.exit_code) == (0, 0, 1)


@pytest.mark.parametrize(("status", "said"), [("aborted", ["error: why"]), ("success", [])])
def test_the_first_rank_of_a_node_speaks_for_one_that_left_in_silence_if_it_gave_up_too(
    tmp_path: Path, make: Make, status: str, said: list[str]
) -> None:
    stop = told("run_stop", status=status, rank=0, seq=0)
    found = failure(tmp_path, make, [(1, 2, 1)], {0: "error: why\n", 1: ""}, HERE, stdout=stop)
    assert (found.rank, found.exit_code, found.last_lines) == (1, 2, said)


def test_last_lines_are_few_and_without_events(tmp_path: Path, make: Make) -> None:
    text = "".join(f"line {number}\n\n" for number in range(5_000)) + ":::MLLOG {}\n"
    found = failure(tmp_path, make, [(1, 1, 1)], {1: text}, [NodeExit(0, 1)])
    assert found.last_lines == [f"line {number}" for number in range(4_980, 5_000)]


@pytest.mark.parametrize(
    ("line", "launch"),
    [
        (told("tracked_stats", {"final_accuracy": 98.3, "train_seconds": 3.0}), {}),
        (told("eval_accuracy", 98.3, accuracy=98.3, epoch_num=1), {}),
        (b"Test set: Average loss: 0.1, Accuracy: 983/10 (9830%)\n", {"dialects": {"pytorch-mnist": ""}}),
    ],
    ids=["statistics", "evaluation", "dialect"],
)
def test_an_accuracy_outside_0_to_1_is_null_with_a_doubt_and_other_figures_stay(
    tmp_path: Path, make: Make, line: bytes, launch: dict[str, Any]
) -> None:
    record = make.run(tmp_path, stdout={0: line}, **launch).read()
    assert "final_accuracy" not in record.metrics
    assert not any(row["accuracy"] for row in record.evaluations)
    assert len(record.doubts) == 1
    assert "accuracy" in record.doubts[0]
    assert record.metrics.get("train_seconds") == (3.0 if b"train_seconds" in line else None)
