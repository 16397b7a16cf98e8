"""Scripts whose samples were counted: the speed-up is that of a sample, and the batches say the kind of scaling."""

from typing import Any

import pytest

from runner.records.schema import Observed, RankFacts, Record
from runner.report.bottlenecks import explain
from runner.report.compare import compare
from runner.report.formats import document
from runner.report.notes import notes
from runner.report.rows import Row
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


def second(**changes: Any) -> Row:
    """The row of two processes that need half the time for a sample."""
    seconds = changes.pop("seconds", 0.5e-3)
    return block(made("1x1", 1e-3) + made("1x2", seconds, **changes)).rows[1]


def test_the_same_batch_of_a_step_is_strong_scaling() -> None:
    row = second()
    assert (row.scaling, row.claimed) == ("strong", True)
    assert row.speedup is not None
    assert row.speedup.value == pytest.approx(2, rel=0.05)
    assert row.rate is not None
    assert row.rate.value == pytest.approx(2_000, rel=0.05)
    assert row.rate.low is not None
    assert row.rate.low < row.rate.value


def test_the_same_batch_of_a_process_is_weak_scaling() -> None:
    row = second(global_batch_size=128, steps=50)
    assert (row.scaling, row.claimed) == ("weak", True)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"trained_samples": 3_000, "seconds": 2e-3}, "trained samples differs"),
        ({"global_batch_size": 96}, "batch per process differs: 48 and 64"),
        ({"global_batch_size": 0}, "could not be counted"),
    ],
)
def test_a_speed_up_is_shown_and_not_claimed_where_other_work_was_done(changes: dict[str, Any], says: str) -> None:
    row = second(**changes)
    assert says in str(row.claimed)
    assert row.speedup is not None
    assert (row.speedup.value > 1) == (row.first.seconds < 1e-3)  # type: ignore[operator]


def test_processes_that_each_went_over_as_many_samples_as_one_alone_share_nothing_out() -> None:
    runs = made("1x1", 1e-3, samples_of_each_process=640)
    more = {"samples_of_each_process": 640, "global_batch_size": 128, "trained_samples": 12_800}
    assert "all 640 samples" in str(block(runs + made("1x2", 5e-4, **more)).rows[1].claimed)
    more["samples_of_each_process"] = 320  # parts of it, made by hand
    assert "all 640 samples" not in str(block(runs + made("1x2", 5e-4, **more)).rows[1].claimed)


def test_a_few_samples_that_pad_the_last_batch_are_the_same_work() -> None:
    assert second(trained_samples=6_416, steps=101).claimed is True


def test_a_declared_kind_that_the_batches_deny_is_no_claim() -> None:
    runs = made("1x1", 1e-3, scaling="strong") + made("1x2", 5e-4, scaling="strong", global_batch_size=128)
    assert "global batch differs" in str(block(runs).rows[1].claimed)


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


def test_the_table_shows_samples_per_second() -> None:
    text = document("markdown", compare(made("1x1", 1e-3) + made("1x2", 5e-4)))
    assert "| samples/s [95%] |" in text
    assert "strong scaling" in text
    assert "sample seconds" not in text


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
