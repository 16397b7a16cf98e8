"""Scripts whose samples were counted: the speed-up is that of a sample, and the batches say the kind of scaling."""

from typing import Any

import pytest

from runner.records.schema import Observed, RankFacts, Record
from runner.report.bottlenecks import explain
from runner.report.notes import notes
from runner.report.run_summary import RunSummary
from tests.support.records import make_launch
from tests.support.summaries import base, block

COUNTED = {"scaling": None, "measure": "sample_seconds", "global_batch_size": 64, "steps": 100}
COUNTED |= {"trained_samples": 6_400, "wall_seconds": 30.0}
HANDED_OUT = {"samples_of_each_process": 640, "global_batch_size": 128, "trained_samples": 12_800}


def made(layout: str, seconds: float | None, **changes: Any) -> list[RunSummary]:
    times = [seconds and seconds * factor for factor in (1.0, 1.01, 0.99)]
    return base(times, layout=layout, processes=int(layout[-1]), **{**COUNTED, **changes})


@pytest.mark.parametrize(
    ("changes", "scaling", "claimed"),
    [
        ({}, "strong", True),
        ({"global_batch_size": 128, "steps": 50}, "weak", True),
        ({"trained_samples": 6_416, "steps": 101}, "strong", True),  # they pad the last batch
        ({"global_batch_size": 96}, None, "batch per process differs: 48 and 64"),
        ({"global_batch_size": 0}, None, "--scaling"),
        (HANDED_OUT, "weak", "all 640 samples"),
        ({**HANDED_OUT, "samples_of_each_process": 320}, "weak", True),  # parts of it, made by hand
    ],
)
def test_the_batches_say_the_kind_of_scaling_and_other_work_is_not_claimed(
    changes: Any, scaling: Any, claimed: bool | str
) -> None:
    row = block(made("1x1", 1e-3, samples_of_each_process=640) + made("1x2", 0.5e-3, **changes)).rows[1]
    assert row.scaling == scaling
    assert str(claimed) in str(row.claimed)
    assert row.speedup.value == pytest.approx(2, rel=0.05)
    assert row.rate.low < row.rate.value == pytest.approx(2_000, rel=0.05)


def test_a_cell_whose_samples_were_never_counted_is_compared_by_the_clock() -> None:
    unknown = made("1x2", None, trained_samples=0, unobserved="rank 1: another thread", wall_seconds=20.0)
    found = block(made("1x1", 1e-3) + unknown)
    assert [row.first.measure for row in found.rows] == ["wall_seconds"] * 2
    assert found.rows[1].speedup is None
    assert "another thread" in str(notes(found))


def test_a_run_whose_samples_were_not_counted_is_not_complete_beside_others() -> None:
    lost = made("1x2", None, unobserved="rank 1: it ended without its last line")[:1]
    found = block(made("1x1", 1e-3) + made("1x2", 5e-4) + lost)
    assert found.first.measure == "sample_seconds"
    assert "not complete" in str(found.rows[1].claimed)
    assert "its last line" in str(notes(found))


def test_the_bars_of_a_script_are_those_of_its_steps() -> None:
    def rank(number: int, exchanged: Any) -> RankFacts:
        seen = Observed(process=1, rank=number, steps=110, warmup_steps=10, seconds_after_warmup=10.0)
        seen.data_seconds_after_warmup, seen.collective_seconds_after_warmup = 2.0, exchanged
        return RankFacts(rank=number, observed=seen)

    for exchanged, words, bars in (
        (5.0, "100 steps", ["d 20%  # 30%  x 10%  . 40%", "d 20%  # 70%  x 10%"]),
        (None, "exchanging counts as computing", ["d 20%  # 80%"] * 2),
    ):
        record = Record(launch=make_launch(), status="completed", ranks=[rank(0, exchanged), rank(1, 1.0)])
        lines, shown, _ = explain(record)
        assert words in lines[0]
        assert [figures for _, _, figures in shown] == bars
