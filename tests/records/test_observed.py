"""Counts inside the processes of a script -> the figures of its record, or why there are none."""

import json
from pathlib import Path
from typing import Any

import pytest

from runner.records.schema import Record
from tests.support.records import Make

RANK: dict[str, Any] = {
    "process": 1,
    "is_last": True,
    "steps": 100,
    "samples": 1600,
    "batch_size": 16,
    "accumulation": 1,
    "samples_per_pass": 1600,
    "dataset_samples": 3200,
    "warmup_steps": 10,
    "seconds_after_warmup": 2.0,
    "samples_after_warmup": 1440,
    "peak_bytes": 10**9,
}


def line(rank: int, seen: dict[str, Any]) -> bytes:
    event = {"time_ms": 1, "key": "observed", "metadata": {**RANK, "rank": rank, **seen}}
    return b":::MLLOG %s\n" % json.dumps(event).encode()


def observed(place: Path, make: Make, *ranks: dict[str, Any] | None) -> Record:
    """Make the record of a script with these counts of its ranks; None for a rank without any."""
    lines = {rank: b"" if seen is None else line(rank, seen) for rank, seen in enumerate(ranks)}
    return make.run(place, stdout=lines, layout=f"1x{len(ranks)}", dialects={"none": ""}).read()


def test_all_ranks_together_are_as_fast_as_the_sum_of_them(tmp_path: Path, make: Make) -> None:
    record = observed(tmp_path, make, {}, {"seconds_after_warmup": 4.0, "peak_bytes": 2 * 10**9})
    assert record.metrics.pop("sample_seconds") == pytest.approx(1 / (1440 / 2 + 1440 / 4))
    del record.metrics["wall_seconds"]
    assert record.metrics == {"train_seconds": 4.0, "peak_bytes": 2 * 10**9}
    assert record.facts == {"steps": 100, "trained_samples": 3200, "global_batch_size": 32}
    assert (record.status, record.doubts, record.events["seen"]) == ("completed", [], 0)


def test_the_last_line_of_a_process_counts_unless_the_process_trained_nothing(tmp_path: Path, make: Make) -> None:
    lines = [{"steps": 50, "is_last": False}, {"process": 2, "steps": 0, "samples": None}, {}]
    stdout = b"".join(line(0, one) for one in lines)
    assert make.run(tmp_path, stdout={0: stdout}, dialects={"none": ""}).read().facts["steps"] == 100


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (None, "rank 1: not observed"),
        ({"is_last": False}, "rank 1: ended"),
        ({"samples": None, "unknown": {"samples": "another thread fetches them"}}, "rank 1: another thread"),
        ({"seconds_after_warmup": None, "warmup_steps": None}, "rank 1: too few"),
        ({"warmup_steps": 59}, "59 of 100"),
        ({"samples_from": "model"}, "share a batch"),
        ({"last_step_ms": 6_000}, "1.0 s apart"),
    ],
)
def test_a_rank_without_comparable_counts_leaves_the_figures_of_all_unknown(
    tmp_path: Path, make: Make, second: dict[str, Any] | None, why: str
) -> None:
    first = {"samples_from": "loader", "last_step_ms": 5_000}
    record = observed(tmp_path, make, first, None if second is None else {**first, **second})
    assert "sample_seconds" not in record.metrics
    assert "trained_samples" not in record.facts
    assert why in record.facts["unobserved"]


@pytest.mark.parametrize(
    ("second", "each", "batch"),
    [({}, 1600, 32), ({"samples_per_pass": 800}, None, 32), ({"accumulation": None}, 1600, None)],
)
def test_the_batch_and_the_samples_of_each_process_are_facts_only_if_every_rank_has_them(
    tmp_path: Path, make: Make, second: dict[str, Any], each: int | None, batch: int | None
) -> None:
    whole = {"dataset_samples": 1600}
    facts = observed(tmp_path, make, whole, {**whole, **second}).facts
    assert facts["trained_samples"] == 3200
    assert (facts.get("samples_of_each_process"), facts.get("global_batch_size")) == (each, batch)


def test_an_invalid_line_of_the_observer_is_a_doubt(tmp_path: Path, make: Make) -> None:
    record = observed(tmp_path, make, {"steps": "many"})
    assert record.ranks[0].observed is None
    assert "steps" in record.doubts[0]
