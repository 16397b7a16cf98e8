"""What was observed inside the processes of a script -> the figures of its record, or why there are none."""

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
    "unknown": {},
}


def line(rank: int, seen: dict[str, Any]) -> bytes:
    told = json.dumps({**RANK, "rank": rank, **seen})
    return b':::MLLOG {"time_ms": 1, "key": "observed", "metadata": %s}\n' % told.encode()


def observed(place: Path, make: Make, *ranks: dict[str, Any] | None, **launch: Any) -> Record:
    """Make the record of a script whose ranks say this; None for one that says nothing."""
    lines = {rank: b"" if seen is None else line(rank, seen) for rank, seen in enumerate(ranks)}
    return make.run(place, stdout=lines, layout=f"1x{len(ranks)}", dialects={"none": ""}, **launch).read()


def test_all_ranks_together_are_as_fast_as_the_sum_of_them(tmp_path: Path, make: Make) -> None:
    record = observed(tmp_path, make, {}, {"seconds_after_warmup": 4.0, "peak_bytes": 2 * 10**9})
    assert record.metrics["sample_seconds"] == pytest.approx(1 / (1440 / 2 + 1440 / 4))
    assert (record.metrics["train_seconds"], record.metrics["peak_bytes"]) == (4.0, 2 * 10**9)
    assert record.facts == {"steps": 100, "trained_samples": 3200, "global_batch_size": 32}
    assert (record.status, record.doubts, record.events["seen"]) == ("completed", [], 0)


def test_the_last_line_of_a_process_counts_and_not_that_of_a_child_that_trained_nothing(
    tmp_path: Path, make: Make
) -> None:
    lines = [{"steps": 50, "is_last": False}, {"process": 2, "steps": 0, "samples": None}, {}]
    told = b"".join(line(0, one) for one in lines)
    record = make.run(tmp_path, stdout={0: told}, dialects={"none": ""}).read()
    assert record.facts["steps"] == 100


@pytest.mark.parametrize(
    ("second", "says"),
    [
        (None, "rank 1: not observed"),
        ({"is_last": False}, "rank 1: ended"),
        ({"samples": None, "unknown": {"samples": "another thread fetches them"}}, "another thread"),
        ({"seconds_after_warmup": None, "warmup_steps": None}, "warm-up"),
        ({"warmup_steps": 59}, "59 of 100"),
    ],
)
def test_what_was_not_seen_of_one_rank_is_known_of_none(
    tmp_path: Path, make: Make, second: dict[str, Any] | None, says: str
) -> None:
    record = observed(tmp_path, make, {}, second)
    assert "sample_seconds" not in record.metrics
    assert "trained_samples" not in record.facts
    assert says in record.facts["unobserved"]


@pytest.mark.parametrize("second", [{}, {"samples_per_pass": 800}, {"accumulation": None}])
def test_the_global_batch_and_what_each_process_was_handed_are_facts_only_if_every_rank_says_them(
    tmp_path: Path, make: Make, second: dict[str, Any]
) -> None:
    whole = {"dataset_samples": 1600}
    facts = observed(tmp_path, make, whole, {**whole, **second}).facts
    assert facts["trained_samples"] == 3200
    assert facts.get("samples_of_each_process") == (None if "samples_per_pass" in second else 1600)
    assert facts.get("global_batch_size") == (None if "accumulation" in second else 32)


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ({"samples_from": "model"}, "share a batch"),
        ({"last_step_ms": 6_000}, "1.0 s apart"),
    ],
)
def test_the_samples_of_ranks_that_are_unlike_are_not_added_up(
    tmp_path: Path, make: Make, second: dict[str, Any], says: str
) -> None:
    first = {"samples_from": "loader", "last_step_ms": 5_000}
    record = observed(tmp_path, make, first, {**first, **second})
    assert says in record.facts["unobserved"]
    assert "sample_seconds" not in record.metrics


def test_a_line_that_is_none_of_the_observers_is_left_out_with_a_doubt(tmp_path: Path, make: Make) -> None:
    record = observed(tmp_path, make, {"steps": "many"})
    assert record.ranks[0].observed is None
    assert "steps" in record.doubts[0]
