"""Which rank or link is named, with which cause, by what the epochs of a record say; and nobody without proof."""

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.records.schema import Load, RankFacts, Record
from runner.report.bottlenecks import NOT_TOLD, causes, explain
from runner.report.summarize import summarize
from runner.report.times import times_of
from tests.support.fixtures import Make
from tests.support.projects import Project
from tests.support.records import make_launch

HEALTHY = {"data": 0.02, "compute": 0.8, "communication": 0.15, "straggler": 0.03, "other": 0.0}
WAITING = {"data": 0.02, "compute": 0.4, "communication": 0.1, "straggler": 0.48, "other": 0.0}
SLOW_LOADER = {"data": 0.5, "compute": 0.4, "communication": 0.1, "straggler": 0.0, "other": 0.0}
SLOW = {"data": 0.02, "compute": 0.88, "communication": 0.1, "straggler": 0.0, "other": 0.0}
EXCHANGING = {"data": 0.0, "compute": 0.2, "communication": 0.79, "straggler": 0.01, "other": 0.0}
ALONE = {"data": 0.01, "compute": 0.93, "communication": 0.05, "straggler": 0.01, "other": 0.0}


def told(parts: dict[str, float], **shares: float) -> dict[str, float]:
    """What a rank reports of an epoch of 10 s."""
    extra = {"slowest_share": 0.5, "cpu_share": 0.8, **shares}
    return {**{f"{part}_seconds": 10 * share for part, share in parts.items()}, **extra}


def record(*ranks: dict[str, float], epochs: int = 4, machines: str = "aaaaaaaa", **facts: Any) -> Record:
    """A record whose ranks, each on a node of its own, report the same in each epoch, but for a per cent."""
    draw = random.Random(1)

    def again(values: dict[str, float]) -> dict[str, float]:
        return {name: value * draw.uniform(0.99, 1.01) for name, value in values.items()}

    rows = [
        {"epoch_num": epoch, "time_by_rank": {str(rank): again(values) for rank, values in enumerate(ranks)}}
        for epoch in range(1, epochs + 1)
    ]
    links = facts.pop("links", {})
    known = [RankFacts(rank=rank, node=rank, facts={"machine": machines[rank], **facts}) for rank in range(len(ranks))]
    for rank, link in links.items():
        known[rank].facts["link"] = link
    return Record(launch=make_launch(), status="completed", ranks=known, epochs=rows)


def named(made: Record) -> list[tuple[tuple[int, ...], str]]:
    times = times_of(made)
    return [(cause.ranks, cause.kind) for cause in causes(times, made)]


def sentences(made: Record) -> list[str]:
    times = times_of(made)
    return [cause.sentence for cause in causes(times, made)] if times else []


SLOW_LINK = {0: {"to": 1, "bytes_per_second": 1e9}, 1: {"to": 0, "bytes_per_second": 6.5e6}}
SLOWER_LINK = {n: {"to": (n + 1) % 4, "bytes_per_second": 2e8 if n == 2 else 1e9} for n in range(4)}
GOOD_LINKS = {0: {"to": 1, "bytes_per_second": 1e9}, 1: {"to": 0, "bytes_per_second": 1.2e9}}
CASES: dict[str, tuple[Record, list[tuple[tuple[int, ...], str]]]] = {
    "a healthy run": (record(told(HEALTHY), told(HEALTHY)), []),
    "a slow loader": (record(told(WAITING), told(SLOW_LOADER)), [((1,), "loader")]),
    "two slow loaders of four": (
        record(told(WAITING), told(SLOW_LOADER), told(WAITING), told(SLOW_LOADER)), [((1, 3), "loader")],
    ),
    "a quota": (record(told(WAITING), told(SLOW, throttled_share=0.45)), [((1,), "quota")]),
    "a quota that all ranks have": (
        record(told(HEALTHY, throttled_share=0.5), told(HEALTHY, throttled_share=0.4)), [((0, 1), "quota")],
    ),
    "a quota that nobody waits for": (record(told(ALONE), told(ALONE, throttled_share=0.4)), []),
    "a quota of the rank that waits": (record(told(SLOW), told(WAITING, throttled_share=0.4)), []),
    "a quota that hardly matters": (record(told(WAITING), told(SLOW, throttled_share=0.05)), []),
    "a slow link that hardly matters": (record(told(HEALTHY), told(HEALTHY), links=SLOW_LINK), []),
    "a slower processor": (
        record(told(WAITING, cpu_share=0.4), told(SLOW, cpu_share=0.85)), [((1,), "processor")],
    ),
    "a node that others use": (record(told(WAITING), told(SLOW), machines="ab"), [((1,), "node")]),
    "a slower GPU": (record(told(WAITING), told(SLOW), device="cuda:1"), [((1,), "gpu")]),
    "a slow link": (record(told(EXCHANGING), told(EXCHANGING), links=SLOW_LINK), [((1,), "link")]),
    "a link that is slow beside the others": (
        record(*[told(EXCHANGING)] * 4, machines="abcd", links=SLOWER_LINK), [((2,), "link")],
    ),
    "much to exchange over good links": (record(told(EXCHANGING), told(EXCHANGING), links=GOOD_LINKS), []),
    "one epoch, always this rank": (
        record(told(WAITING), told(SLOW_LOADER, slowest_share=1.0), epochs=1), [((1,), "loader")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("made", "found"), CASES.values(), ids=CASES)
def test_the_right_rank_is_named_with_the_right_cause(made: Record, found: list[tuple[tuple[int, ...], str]]) -> None:
    assert named(made) == found
    lines, bars, _ = explain(made)
    assert len(lines) == 3
    assert len(bars) == len(made.ranks)
    assert len(sentences(made)) == len(found)


def test_a_slow_loader_is_named_though_something_else_made_an_epoch_long_but_not_if_it_was_slow_in_some_only() -> None:
    """Its batches take as many seconds then as in the other epochs: a smaller part of that one."""
    made = record(told(WAITING), told(SLOW_LOADER))
    for values in made.epochs[1]["time_by_rank"].values():
        values["compute_seconds"] += 20
    assert named(made) == [((1,), "loader")]
    turned = made.epochs[2]["time_by_rank"]
    turned["0"], turned["1"] = turned["1"], turned["0"]
    assert named(made) == []


def test_it_is_said_how_long_a_quota_holds_ranks_back_also_if_it_sets_in_later() -> None:
    made = record(told(WAITING), told(SLOW, throttled_share=0.6))
    del made.epochs[0]["time_by_rank"]["1"]["throttled_share"]
    (alone,) = sentences(made)
    said = r"rank 1 \(node 1\) by a CPU quota: held back 45% of the training; the others wait for it 4\d%"
    assert re.match(said, alone)
    (both,) = sentences(record(told(WAITING, throttled_share=0.45), told(SLOW, throttled_share=0.45)))
    assert both == "ranks 0, 1, each by a CPU quota: held back 45% of the training"


@given(st.integers(2, 6), st.integers(1, 12), st.randoms(use_true_random=False))
def test_ranks_that_differ_by_chance_are_not_named(ranks: int, epochs: int, draw: random.Random) -> None:
    """Each epoch one rank, drawn anew, is up to a fifth slower than the others."""
    made = record(*[told(HEALTHY)] * ranks, epochs=epochs)
    for row in made.epochs:
        slower = [draw.uniform(0, 0.2) for _ in range(ranks)]
        for rank, own in enumerate(slower):
            parts = {**HEALTHY, "compute": 0.7 + own, "straggler": max(slower) - own, "communication": 0.2}
            row["time_by_rank"][str(rank)] = told(parts, slowest_share=1 / ranks)
    assert named(made) == []


def test_the_bars_have_one_length_and_the_lines_say_what_would_help() -> None:
    lines, bars, _ = explain(record(told(WAITING), told(SLOW_LOADER)))
    assert {len(bar) for _, bar, _ in bars} == {40}
    assert lines[0].startswith("Where the time went: computing 40%, waiting for data 26%, waiting for the slowest 24%")
    assert lines[1].startswith("What slows it: rank 1 (node 1) by its loader: it waits for batches 50%")
    assert "num_workers" in lines[2]
    failed = record(told(WAITING), told(SLOW_LOADER))
    failed.status = "failed"
    assert explain(failed)[0][0].startswith("Where the time went in the epochs of a run that is failed: computing 40%")


def test_of_a_disturbed_run_it_is_said_first_and_waiting_for_a_core_is_not_computing() -> None:
    made = record(told(ALONE, cpu_share=0.5))
    made.ranks[0].facts |= {"machine_cores": 2, "device": "cpu"}
    made.load = [Load(0, 1, {"cpu_percent": 97.0, "own_cpu_percent": 25.0}, {}, {})]
    lines, bars, _ = explain(made)
    assert lines[0] == "Disturbed: other processes took 1.44 of 2 cores"
    assert lines[1].startswith("Where the time went: computing 50%, not on a core 43%, exchanging 5%")
    assert lines[3].startswith("What would help: ending what disturbed it and running it again")
    assert len(bars[0][1]) == 40
    made.load = []
    lines, _, _ = explain(made)
    assert lines[0].startswith("Where the time went: computing 50%, not on a core 43%")
    assert lines[2].startswith("What would help: as many processes and threads as there are cores")
    on_gpu, _, _ = explain(record(told(ALONE, cpu_share=0.5), device="cuda:0"))
    assert on_gpu[0].startswith("Where the time went: computing 93%")


def test_of_many_ranks_the_named_ones_have_a_bar() -> None:
    ranks = [told(WAITING)] * 100
    ranks[90] = told(SLOW_LOADER)
    _, bars, _ = explain(record(*ranks, machines="a" * 100))
    assert "rank 90" in [name for name, _, _ in bars]
    assert bars[-1][0] == "... and 68 more"


def test_the_command_and_the_summary_say_what_a_records_raw_files_hold(
    project: Project, make: Make, results: Path
) -> None:
    stdout = {}
    for rank, parts in enumerate((WAITING, SLOW_LOADER)):  # put into the one epoch where its time went
        fields = json.dumps(told(parts, slowest_share=1.0))[1:-1].encode()
        stdout[rank] = make.lines(rank, 10.0).replace(b'"steps": 13', b'"steps": 13, ' + fields)
    folder = make.run(results, stdout=stdout, layout="1x2")
    done = project.runner("explain", folder.path)
    assert done.code == 0, done.snapshot
    _, second, *_, bar, _, letters = done.stdout.splitlines()
    assert second.startswith("What slows it: rank 1 (node 0, here) by its loader: ")
    assert bar == f"rank 0  d{'#' * 16}{'x' * 4}{'.' * 19}  d 2%  # 40%  x 10%  . 48%"
    assert letters == "d waiting for data  # computing  x exchanging  . waiting for the slowest"
    assert project.runner("explain", folder.path / "run.json").stdout == done.stdout
    assert folder.read().epochs[0]["time_by_rank"]["1"]["data_seconds"] == 5.0
    (block,) = summarize(results)[0]
    (run,) = block.rows[0].runs
    assert run.slowed[0].startswith("rank 1 (node 0, here) by its loader")
    (folder.path / "run.json").write_text("{")
    project.refused("explain", folder.path)


@pytest.mark.parametrize(
    ("status", "reason", "epochs", "said"),
    [
        ("running", None, [], "no epoch ended, .*; the run is running$"),
        ("completed", None, [], re.escape(NOT_TOLD)),
        ("completed", None, [{"epoch_num": 1}], re.escape(NOT_TOLD)),
        ("failed", "rank 1 exited", [], "no epoch ended, .*; the run is failed: rank 1 exited$"),
    ],
)
def test_a_record_that_says_nothing_of_the_time_gets_one_line_that_says_why(
    status: Any, reason: str | None, epochs: list[dict[str, Any]], said: str
) -> None:
    made = Record(launch=make_launch(), status=status, reason=reason, epochs=epochs)
    (line,), bars, _ = explain(made)
    assert re.match(said, line)
    assert bars == []
