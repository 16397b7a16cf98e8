"""Runs on several machines: what kind they are of, which they are, and when a claim may rest on them."""

import math
import random
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from runner.records.schema import NodeExit, Outcome
from runner.report.compare import compare
from runner.report.notes import notes as notes_of
from runner.report.run_summary import RunSummary, summary_of
from tests.support.records import Make
from tests.support.summaries import ONE, TWO, base, block, pair, row

HOST = {"name": "here", "cores": 2, "gpus": [], "memory_bytes": 24_000_000_000, "kernel": "Linux-6.1-x86"}
A, B, C, D, E, F = ([(f"boot-{name}", name)] for name in "abcdef")


@pytest.mark.parametrize(
    ("runner", "start", "why"),
    [
        # Two checkouts in two containers of one host; firmware keeps some of the memory of equal machines.
        ({"name": "other", "memory_bytes": 23_900_000_000}, {"host": "other"}, "True"),
        ({}, {"cores": 1.5}, "usable cores differs: 1.5, 2 and 2"),
        ({}, {"kernel": "Linux-5.15-x86"}, "kernel differs: Linux-5.15-x86, Linux-6"),
        ({}, {"memory_bytes": 16_000_000_000}, "memory differs: 16.0 GB and 24.0 GB"),
        ({}, {"machine": "boot-b"}, "1x2 on container (boot-b), 1x1 on container"),
        ({"memory_bytes": None}, {}, "memory differs: unknown and 24.0 GB"),
    ],
)
def test_a_claim_across_machines_is_refused_with_what_differs_or_what_only_some_records_say(
    make: Make, results: Path, runner: Any, start: Any, why: str
) -> None:
    runs = []
    for repeat in (1, 2, 3):
        for layout, seconds, host, facts in (("1x1", 10.0, {}, {}), ("1x2", 6.0, runner, start)):
            told = {"host": "container", "machine": "boot-a", **facts}
            folder = make.run(results, seconds + repeat / 100, layout=layout, host={**HOST, **host}, start=told)
            runs.append(summary_of(folder.read()))
    assert why in str(row(runs).claimed)


HERE, NAMELESS = [("", "here")], [("", "")]
USED = {
    "most on another": ([A, A, A], [A, B, B], "machines"),
    "two nodes, and one of them and another": ([A + B] * 3, [B + C] * 3, "machines"),
    "in turn on two": ([A, B, A], [B, A, B], "True"),
    "each on a machine of its own": ([A, B, C], [D, E, F], "True"),
    "one node, and another beside it": ([A, A, A], [A + B, A + B, A + B], "True"),
    "by name, whose id another record has": ([HERE] * 3, [[("m", "here")]] * 3, "True"),
    "not known": ([NAMELESS] * 3, [NAMELESS] * 3, "1x2 ran on is unknown"),
}


def on(first: list[Any], second: list[Any], times: tuple[Any, Any] = (ONE, TWO)) -> list[RunSummary]:
    """Runs of one process and of two that were made on these machines."""
    runs = base(times[0]) + pair(times[1])
    return [replace(each, machines=where) for each, where in zip(runs, first + second, strict=True)]


@pytest.mark.parametrize(("first", "second", "claimed"), USED.values(), ids=USED)
def test_a_cell_is_claimed_if_it_can_be_told_apart_from_the_machines_that_it_ran_on(
    first: Any, second: Any, claimed: str
) -> None:
    for sides in ((first, second), (second, first)):
        assert claimed in str(row(on(*sides)).claimed)


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
    assert "on 3 machines" in str(notes_of(block(on([A, B, C], [C, A, B]))))
    assert "machines" not in str(notes_of(block(base() + pair())))


def batch_run(make: Make, results: Path, seconds: float, *nodes: dict[str, Any]) -> RunSummary:
    """A run of a batch job, with one rank on each of its nodes; those of which nothing is known print nothing."""
    exits = [NodeExit(node, 0, place={"machine": f"n{node}", "job": "7"}) for node in range(len(nodes))]
    outcome = Outcome(ended="2026-11-21T00:01:00+00:00", wall_seconds=12, exits=exits)
    stdout = {rank: make.lines(rank, seconds, **facts) for rank, facts in enumerate(nodes) if facts}
    folder = make.run(results, stdout=stdout, layout=f"{len(nodes)}x1", target="slurm", outcome=outcome)
    return summary_of(folder.read())


CORES_16, CORES_32 = {"machine_cores": 16}, {"machine_cores": 32}


@pytest.mark.parametrize(
    ("nodes", "why"), [([CORES_16] * 2, "True"), ([CORES_16, CORES_32], "cores of a node differs: ")]
)
def test_a_job_has_the_cores_and_machines_of_its_nodes_and_unlike_nodes_are_refused(
    make: Make, results: Path, nodes: Any, why: str
) -> None:
    runs = [batch_run(make, results, seconds, CORES_16) for seconds in ONE]
    assert (runs[0].cores, runs[0].hardware) == (16, "Toy CPU, 16 cores"), "and not those of the runner's machine"
    runs += [batch_run(make, results, seconds, *nodes) for seconds in TWO]
    (found,) = [each for table in compare(runs) for each in table.rows if each.first.layout == "2x1"]
    assert why in str(found.claimed)
    assert batch_run(make, results, 1.0, {}, {}).machines == [("", "n0"), ("", "n1")]
