"""What disturbed a run, by its record: others, throttling, swapping, and what is none of it."""

from typing import Any

import pytest

from runner.records.schema import Load, RankFacts, Record
from runner.report.times import disturbances
from tests.support.records import make_launch

QUIET = {"cpu_percent": 92.2, "own_cpu_percent": 88.0, "swapped_bytes_per_second": 0.0}


def found(*means: Any, cores: Any = 2, machines: str = "aaaaaaaa") -> list[str]:
    """Return the disturbances of nodes with these mean figures, on machines named by letters."""
    facts = [
        RankFacts(rank=node, node=node, facts={"machine": machines[node], "machine_cores": cores})
        for node in range(len(means))
    ]
    load = [Load(node, 1, mean, {}, {}) for node, mean in enumerate(means)]
    return disturbances(Record(launch=make_launch(), status="completed", ranks=facts, load=load))


CASES = {
    "a quiet run": ({}, 2, ""),
    "what the system takes of two cores": ({"cpu_percent": 96.0, "own_cpu_percent": 89.0}, 2, ""),
    "the kernel, which shapes a link": (
        {"cpu_percent": 98.0, "own_cpu_percent": 80.0, "interrupts_percent": 15.0}, 2, "",
    ),
    "others on cores that nobody needs": ({"cpu_percent": 50.0, "own_cpu_percent": 12.0}, 16, ""),
    "others where less than a core is left": ({"cpu_percent": 95.0, "own_cpu_percent": 85.0}, 16, "1.60 of 16 cores"),
    "a hot processor": ({"cpu_throttled_percent": 30.4}, 2, "temperature 30%"),
    "hot and swapping for a moment": (
        {"cpu_throttled_percent": 4.0, "gpu_throttled_percent": 5.0, "swapped_bytes_per_second": 9e5}, 2, "",
    ),
    "hot GPUs": ({"gpu_throttled_percent": 12.5}, 2, "power supply 12%"),
    "others on the GPUs": ({"gpu_shared_percent": 100.0}, 2, "on the GPUs 100%"),
    "swapping": ({"swapped_bytes_per_second": 2.5e6}, 2, "swapped 2.5 MB/s"),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "cores", "words"), CASES.values(), ids=CASES)
def test_each_disturbance_is_named_with_its_figure(changes: Any, cores: int, words: str) -> None:
    said = found({**QUIET, **changes}, cores=cores)
    assert [words in what for what in said] == [True] * bool(words)


def test_nodes_on_one_machine_are_not_others_to_each_other() -> None:
    half = {"cpu_percent": 98.0, "own_cpu_percent": 48.0}
    assert found(half, half) == []
    assert ["1.00 of 2 cores" in what for what in found(half, half, machines="ab")] == [True] * 2


def test_a_run_that_did_not_report_its_own_share_is_taken_to_be_quiet() -> None:
    busy = {**QUIET, "own_cpu_percent": 1.0}
    assert found({"cpu_percent": 100.0}) == found({"cpu_percent": 100.0}, busy) == []
    assert found(busy, cores=None) == found() == []
