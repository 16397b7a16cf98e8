"""Runs that a scheduler put on unlike nodes: what ran where is known, and no speed-up over another node is claimed."""

from pathlib import Path
from typing import Any

from runner.records.folder import RunFolder
from runner.records.schema import NodeExit, Outcome
from runner.report.run_summary import summary_of
from runner.report.summarize import summarize
from tests.support.records import Make

SECONDS = {"1x1": 10.0, "2x1": 5.0}
NODES = ({"machine_cores": 16}, {"machine_cores": 16})


def make_run(make: Make, results: Path, layout: str, repeat: int, *nodes: dict[str, Any]) -> RunFolder:
    """A run of a batch job, with one rank on each of its nodes."""
    exits = [NodeExit(node, 0, place={"machine": f"n{node}", "job": "7"}) for node in range(len(nodes))]
    outcome = Outcome(ended="2026-11-21T00:01:00+00:00", wall_seconds=12, exits=exits)
    seconds = SECONDS[layout] + repeat / 100
    stdout = {rank: make.lines(rank, seconds, **facts) for rank, facts in enumerate(nodes)}
    return make.run(results, stdout=stdout, layout=layout, target="slurm", repeat=repeat, outcome=outcome)


def claimed(make: Make, results: Path, *others: dict[str, Any]) -> bool | str:
    """Return the verdict on two processes on these nodes, over three runs with one process."""
    for repeat in (1, 2, 3):
        make_run(make, results, "1x1", repeat, NODES[0])
        make_run(make, results, "2x1", repeat, *others)
    (found,) = [row for block in summarize(results)[0] for row in block.rows if row.first.layout == "2x1"]
    return found.claimed


UNLIKE: list[tuple[list[dict[str, Any]], str]] = [
    ([{"machine_cores": 32}] * 2, "hardware differs: Toy CPU, 32 cores and Toy CPU, 16 cores"),
    ([{"machine_cores": 16}, {"machine_cores": 32}], "cores of a node differs: "),
    ([{"machine_cores": 16}, {"machine_cores": 16, "device_name": "B"}], "heterogeneous devices have no baseline"),
]


def test_a_speed_up_over_like_nodes_is_claimed_and_over_unlike_nodes_refused(make: Make, tmp_path: Path) -> None:
    assert claimed(make, tmp_path / "like", *NODES) is True
    for others, why in UNLIKE:
        assert why in str(claimed(make, tmp_path / why, *others))


def test_the_cores_of_a_job_are_those_of_its_node_and_not_of_the_runner(make: Make, tmp_path: Path) -> None:
    record = make_run(make, tmp_path, "1x1", 1, NODES[0]).read()
    assert record.launch.host["cores"] == 2
    found = summary_of(record)
    assert (found.cores, found.hardware) == (16, "Toy CPU, 16 cores")
