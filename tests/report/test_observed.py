"""Scripts whose samples were counted: the speed-up is that of a sample, and the batches say the kind of scaling."""

from typing import Any

import pytest

from runner.records.schema import Observed, RankFacts, Record
from runner.report.bottlenecks import explain
from runner.report.notes import notes
from runner.report.run_summary import RunSummary
from tests.support.records import make_launch
from tests.support.summaries import block, run

COUNTED: dict[str, Any] = {"scaling": None, "measure": "sample_seconds", "global_batch_size": 64, "steps": 100}
COUNTED |= {"trained_samples": 6_400, "wall_seconds": 30.0}


def made(layout: str, seconds: float | None, **changes: Any) -> list[RunSummary]:
    processes = int(layout[-1])
    return [
        run(seconds and seconds * factor, layout, processes, repeat=repeat, **{**COUNTED, **changes})
        for repeat, factor in enumerate((1.0, 1.01, 0.99), 1)
    ]


HANDED_OUT: dict[str, Any] = {"samples_of_each_process": 640, "global_batch_size": 128, "trained_samples": 12_800}


@pytest.mark.parametrize(
    ("changes", "scaling", "claimed"),
    [
        ({}, "strong", True),
        ({"global_batch_size": 128, "steps": 50}, "weak", True),
        ({"trained_samples": 6_416, "steps": 101}, "strong", True),  # they pad the last batch
        ({"global_batch_size": 96}, None, "batch per process differs: 48 and 64"),
        ({"global_batch_size": 0}, None, "could not be counted"),
        (HANDED_OUT, "weak", "all 640 samples"),
        ({**HANDED_OUT, "samples_of_each_process": 320}, "weak", True),  # parts of it, made by hand
    ],
)
def test_the_batches_say_the_kind_of_scaling_and_other_work_is_not_claimed(
    changes: dict[str, Any], scaling: str | None, claimed: bool | str
) -> None:
    seconds = changes.pop("seconds", 0.5e-3)
    alone = {"samples_of_each_process": 640, "scaling": changes.get("scaling")}
    row = block(made("1x1", 1e-3, **alone) + made("1x2", seconds, **changes)).rows[1]
    assert row.scaling == scaling
    assert str(claimed) in str(row.claimed)
    assert row.speedup is not None
    assert row.speedup.value == pytest.approx(1e-3 / seconds, rel=0.05)
    assert row.rate is not None
    assert row.rate.value == pytest.approx(1 / seconds, rel=0.05)
    assert (row.rate.low or 0) < row.rate.value


def test_a_cell_whose_samples_were_never_counted_is_compared_by_the_clock() -> None:
    unknown = made("1x2", None, trained_samples=0, unobserved="rank 1: another thread", wall_seconds=20.0)
    found = block(made("1x1", 1e-3) + unknown)
    assert [row.first.measure for row in found.rows] == ["wall_seconds"] * 2
    assert found.rows[1].speedup is None
    assert any("another thread" in note for note in notes(found))


def test_a_run_whose_samples_were_not_counted_is_not_complete_beside_others() -> None:
    lost = made("1x2", None, unobserved="rank 1: it ended without its last line")[:1]
    found = block(made("1x1", 1e-3) + made("1x2", 5e-4) + lost)
    assert found.first.measure == "sample_seconds"
    assert "not complete" in str(found.rows[1].claimed)
    assert any("its last line" in note for note in notes(found))


def test_the_bars_of_a_script_are_those_of_its_steps() -> None:
    def rank(number: int, exchanged: float | None) -> RankFacts:
        seen = Observed(process=1, rank=number, steps=110, warmup_steps=10, seconds_after_warmup=10.0)
        seen.data_seconds_after_warmup, seen.collective_seconds_after_warmup = 2.0, exchanged
        return RankFacts(rank=number, observed=seen)

    lines, bars, _ = explain(Record(launch=make_launch(), status="completed", ranks=[rank(0, 5.0), rank(1, 1.0)]))
    assert "100 steps" in lines[0]
    assert [figures for _, _, figures in bars] == ["d 20%  # 30%  x 10%  . 40%", "d 20%  # 70%  x 10%"]
    lines, bars, _ = explain(Record(launch=make_launch(), status="completed", ranks=[rank(0, None), rank(1, 1.0)]))
    assert "exchanged counts as computing" in lines[0]
    assert [figures for _, _, figures in bars] == ["d 20%  # 80%"] * 2
