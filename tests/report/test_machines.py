"""Runs on several machines: what kind they are of, which they are, and when a claim may rest on them."""

import math
import random
from pathlib import Path
from typing import Any

import pytest

from runner.records.schema import NodeExit, Outcome, Record
from runner.report.compare import compare
from runner.report.notes import notes as notes_of
from runner.report.run_summary import RunSummary, summary_of
from runner.report.summarize import summarize
from runner.report.two_sides import to_notes
from tests.report.test_two_sides import verdict_of
from tests.support.records import Make
from tests.support.summaries import ONE, TWO, base, block, changed, pair, row, run

HOST = {
    "name": "here",
    "cpu": "Toy CPU",
    "cores": 2,
    "gpus": [],
    "memory_bytes": 24_000_000_000,
    "kernel": "Linux-6.1-x86",
}
A, B, C, D, E, F = ([(f"boot-{name}", name)] for name in "abcdef")


def made(make: Make, results: Path, layout: str, repeat: int, runner: dict[str, Any], **start: Any) -> RunSummary:
    """Keep a run on a machine, and read it."""
    seconds = (10.0 if layout == "1x1" else 6.0) + repeat / 100
    machine = {"host": "container", "machine": "boot-a", **start}
    folder = make.run(results, seconds, layout=layout, repeat=repeat, host={**HOST, **runner}, start=machine)
    return summary_of(folder.read())


def claimed(make: Make, results: Path, runner: dict[str, Any] | None = None, **start: Any) -> bool | str:
    """Return the verdict on a second process that ran on another machine than the first."""
    runs = [made(make, results, "1x1", repeat, {}) for repeat in (1, 2, 3)]
    runs += [made(make, results, "1x2", repeat, runner or {}, **start) for repeat in (1, 2, 3)]
    (found,) = [found for table in compare(runs) for found in table.rows if found.first.layout == "1x2"]
    return found.claimed


def test_two_checkouts_in_two_containers_of_one_host_are_comparable(make: Make, tmp_path: Path) -> None:
    """Firmware keeps some of the memory of equal machines."""
    other = {"name": "other", "memory_bytes": 23_900_000_000}
    assert claimed(make, tmp_path, other, host="other") is True


@pytest.mark.parametrize(
    ("runner", "start", "why"),
    [
        ({}, {"cores": 1.5}, "usable cores differs: 1.5, 2 and 2"),
        ({}, {"kernel": "Linux-5.15-x86"}, "kernel differs: Linux-5.15-x86, Linux-6"),
        ({}, {"memory_bytes": 16_000_000_000}, "memory differs: 16.0 GB and 24.0 GB"),
        ({}, {"machine": "boot-b"}, "the machine may make the difference: 1x2 on container (boot-b), 1x1 on container"),
        ({"memory_bytes": None}, {}, "memory differs: unknown and 24.0 GB"),
    ],
)
def test_a_claim_across_machines_is_refused_with_what_differs_or_what_only_some_records_say(
    make: Make, tmp_path: Path, runner: dict[str, Any], start: dict[str, Any], why: str
) -> None:
    assert why in str(claimed(make, tmp_path, runner, **start))


HERE, NAMELESS = [("", "here")], [("", "")]
DECIDES = "the machine may make the difference: "
USED: dict[str, tuple[list[Any], list[Any], bool | str]] = {
    "most on another": ([A, A, A], [A, B, B], DECIDES),
    "two nodes, and one of them and another": ([A + B] * 3, [B + C] * 3, DECIDES),
    "in turn on two": ([A, B, A], [B, A, B], True),
    "each on a machine of its own": ([A, B, C], [D, E, F], True),
    "one node, and another beside it": ([A, A, A], [A + B, A + B, A + B], True),
    "by name, whose id another record has": ([HERE] * 3, [[("m", "here")]] * 3, True),
    "not known": ([NAMELESS] * 3, [NAMELESS] * 3, "not known on which machine 1x2 ran"),
}


@pytest.mark.parametrize(("first", "second", "claimed"), USED.values(), ids=USED)
def test_a_cell_is_claimed_if_it_can_be_told_apart_from_the_machines_that_it_ran_on(
    first: list[Any], second: list[Any], claimed: bool | str
) -> None:
    for sides in ((first, second), (second, first)):
        assert str(row(on(*sides)).claimed).startswith(str(claimed))


def on(first: list[Any], second: list[Any], times: tuple[Any, Any] = (ONE, TWO)) -> list[RunSummary]:
    """Runs of one process and of two that were made on these machines."""
    ones = [run(seconds, machines=where) for seconds, where in zip(times[0], first, strict=True)]
    return ones + [run(seconds, "1x2", 2, machines=where) for seconds, where in zip(times[1], second, strict=True)]


@pytest.mark.parametrize(("repeats", "pool"), [(3, 2), (3, 100), (10, 4)])
def test_machines_that_differ_by_a_tenth_seldom_make_a_false_claim(repeats: int, pool: int) -> None:
    chance = random.Random(repeats * pool)
    claims = 0
    for _ in range(400):
        speed = [math.exp(chance.gauss(0, 0.1)) for _ in range(pool)]
        places = [[chance.randrange(pool) for _ in range(repeats)] for _ in "ab"]
        times = [[10 * speed[place] * math.exp(chance.gauss(0, 0.02)) for place in side] for side in places]
        machines = [[[(f"boot-{place}", str(place))] for place in side] for side in places]
        claims += row(on(*machines, (times[0], times[1]))).claimed is True
    assert claims / 400 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)


def test_a_claim_over_several_machines_says_so() -> None:
    said = notes_of(block(on([A, B, C], [C, A, B])))
    assert "made on 3 machines of one kind, or starts of fewer, the baseline included: 1x2" in said
    assert not [note for note in notes_of(block(base() + pair())) if "machines" in note]


def test_no_load_of_a_program_that_cannot_report_it_is_said_and_refuses_nothing() -> None:
    plain = {"load_known": False, "sources": {"wall_seconds": "the clock"}}
    runs = changed(base(), **plain) + pair(**plain)
    assert row(runs).claimed is True
    said = "load unknown, so nothing shows that the machine was quiet"
    assert f"{said}: 1x2" in notes_of(block(runs))
    assert f"1x1: {said}" in to_notes([verdict_of(base(**plain), base([10.02, 10.0, 9.97]))], 0.05)


def batch_run(make: Make, results: Path, layout: str, repeat: int, *nodes: dict[str, Any]) -> Record:
    """A run of a batch job, with one rank on each of its nodes; those of which nothing is known print nothing."""
    exits = [NodeExit(node, 0, place={"machine": f"n{node}", "job": "7"}) for node in range(len(nodes))]
    outcome = Outcome(ended="2026-11-21T00:01:00+00:00", wall_seconds=12, exits=exits)
    seconds = 10 / len(nodes) + repeat / 100
    stdout = {rank: make.lines(rank, seconds, **facts) for rank, facts in enumerate(nodes) if facts}
    changes: dict[str, Any] = {"layout": layout, "target": "slurm", "repeat": repeat, "outcome": outcome}
    return make.run(results, stdout=stdout, **changes).read()


CORES_16, CORES_32 = {"machine_cores": 16}, {"machine_cores": 32}


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ([CORES_16] * 2, "True"),
        ([CORES_16, CORES_32], "cores of a node differs: "),
    ],
)
def test_a_speed_up_over_like_nodes_of_a_scheduler_is_claimed_and_over_unlike_nodes_refused(
    make: Make, tmp_path: Path, nodes: list[dict[str, Any]], why: str
) -> None:
    for repeat in (1, 2, 3):
        batch_run(make, tmp_path, "1x1", repeat, CORES_16)
        batch_run(make, tmp_path, "2x1", repeat, *nodes)
    (found,) = [row for block in summarize(tmp_path)[0] for row in block.rows if row.first.layout == "2x1"]
    assert why in str(found.claimed)


def test_the_cores_and_machines_of_a_job_are_those_of_its_nodes_and_not_of_the_runner(
    make: Make, tmp_path: Path
) -> None:
    record = batch_run(make, tmp_path, "1x1", 1, CORES_16)
    assert record.launch.host["cores"] == 2
    found = summary_of(record)
    assert (found.cores, found.hardware) == (16, "Toy CPU, 16 cores")
    assert summary_of(batch_run(make, tmp_path, "2x1", 1, {}, {})).machines == [("", "n0"), ("", "n1")]
