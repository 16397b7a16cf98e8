"""Plots over processes and over cells: what is drawn, over what, and what the sentence below says."""

from pathlib import Path
from typing import Any

import pytest

from runner.report.run_summary import RunSummary
from runner.tools.pages.details import DetailReader, Details
from runner.tools.pages.scaling_plots import efficiency, phases, speed_up
from runner.tools.pages.style import Plot, drawing
from runner.tools.pages.subject import Subject
from tests.support.summaries import base, block, pair

WAYS = [f"way-{number}" for number in range(8)]
OVER_FIRST = {"baseline": {"layout": "1x1", "way": "way-0"}}
BY_WAY = (0.5, 1.0, 2.0, 3.0, 3.5, 4.0, 4.5, 4.8)
"""Of each way, by how many seconds fewer it takes than ten and six."""


def plots_of(runs: list[RunSummary], definition: dict[str, Any] | None = None) -> tuple[Plot, Plot | None]:
    subject = Subject(block(runs, definition), DetailReader(Path("nowhere")), "01")
    with drawing():
        first, second = speed_up(subject), efficiency(subject)
    assert isinstance(first, Plot)
    return first, second


def axes_of(plot: Plot | None) -> Any:
    assert plot is not None
    return plot.figure.axes[0]


def legend(plot: Plot | None) -> list[str]:
    return axes_of(plot).get_legend_handles_labels()[1]


def about(seconds: float) -> list[float]:
    return [seconds, 1.01 * seconds, 0.99 * seconds]


def many_ways(*, unclaimed: int) -> list[RunSummary]:
    """Eight ways with two processes, of which the first ones ran once and so have no claim."""
    runs = base(about(10.0), axes={"way": "way-0"})
    for number, (way, less) in enumerate(zip(WAYS, BY_WAY, strict=True)):
        repeats = 1 if number < unclaimed else 3
        runs += pair(about(6.0 - less)[:repeats], axes={"way": way})
    return runs


def test_of_too_many_lines_those_with_a_claim_are_drawn_and_the_others_are_named() -> None:
    first, second = plots_of(many_ways(unclaimed=4), OVER_FIRST)
    assert legend(first) == ["ideal", "way-0", "way-1", *WAYS[4:]]
    assert first.caption.endswith(" 2 more lines are in the table: way-2 and way-3.")
    assert "way-0" in legend(second), "its cell 1x2 is the one that the caption names"
    assert "With 1x2 way-0, a process does" in second.caption
    assert "2 more lines are in the table" in second.caption


def test_the_line_that_the_caption_names_is_drawn_also_if_it_is_the_last_and_without_a_claim() -> None:
    first, _ = plots_of(many_ways(unclaimed=8), OVER_FIRST)
    assert "may be claimed. 1x2 way-7: " in first.caption
    assert legend(first) == ["ideal", *WAYS[:5], "way-7"]
    assert first.caption.endswith(" 2 more lines are in the table: way-5 and way-6.")


def test_of_too_many_cells_those_with_a_claim_are_drawn_and_the_others_are_counted() -> None:
    runs = base(axes={"way": "way-0"})
    for number in range(10, 49):
        runs += base(about(5.0)[: 3 if number == 48 else 1], axes={"way": f"way-{number}"})
    plot, _ = plots_of(runs, OVER_FIRST)
    names = [text.get_text() for text in axes_of(plot).get_yticklabels()]
    assert len(names) == 24
    assert names[-1] == "1x1 way-48"
    assert "1x1 way-48 is 2.00" in plot.caption
    assert plot.caption.endswith(
        " 16 more cells are in the table: 1x1 way-32, 1x1 way-33, 1x1 way-34, 1x1 way-35, 1x1 way-36, 1x1 way-37 and"
        " 10 others."
    )


@pytest.mark.parametrize("seconds", [1.2, 6.0])
def test_an_efficiency_is_within_the_axes_however_large_it_is(seconds: float) -> None:
    _, plot = plots_of(base(about(10.0)) + pair(about(seconds)))
    assert axes_of(plot).get_ylim()[1] > 100 * 10.0 / seconds / 2


def test_an_interval_many_times_as_wide_does_not_flatten_the_efficiencies() -> None:
    _, plot = plots_of(base([10.0, 20.0, 5.0]) + pair([6.0, 1.0, 20.0]))
    assert axes_of(plot).get_ylim()[1] < 400


def test_the_caption_calls_a_slow_down_one() -> None:
    plot, _ = plots_of(base(about(10.0)) + pair(about(20.0)))
    assert plot.caption.startswith("1x2 is 0.50 [")
    assert plot.caption.endswith(" times as fast as 1x1, a slow-down, and this may be claimed; ideal is 2.")


def test_over_a_baseline_of_two_processes_the_ideal_line_and_the_words_are_over_two() -> None:
    published = {"rows": [{"layout": "1x2", "hardware": "2x A100", "speedup": 1.7}], "source": "s"}
    runs = pair(about(10.0)) + pair(about(5.0), layout="1x4", processes=4)
    first, second = plots_of(runs, {"baseline": {"layout": "1x2"}, "published": published})
    assert axes_of(first).get_ylabel() == "speed-up over 2 processes"
    (ideal,) = [line for line in axes_of(first).get_lines() if line.get_label() == "ideal"]
    assert ideal.get_xydata().tolist() == [[2, 1], [4, 2]]
    assert "and this may be claimed; ideal is 2." in first.caption
    assert first.caption.endswith(" The published speed-ups are over one process, and in the table.")
    assert legend(first) == ["ideal", "measured"]
    assert second.caption.startswith("With 1x2, a process does 100% of the work that one of 1x2 does.")


def test_over_baselines_of_unlike_sizes_each_speed_up_is_times_its_own_and_the_caption_says_so() -> None:
    whole, half = {"way": "whole"}, {"way": "half"}
    runs = base(about(10.0), axes=whole) + pair(about(5.0), axes=whole)
    runs += base(about(8.0), axes=half, processes=2, device="cuda")
    runs += pair(about(4.0), axes=half, processes=4, device="cuda")
    first, _ = plots_of(runs)
    assert axes_of(first).get_ylabel() == "speed-up x baseline's processes"
    assert "Here each speed-up is times the processes of its baseline" in first.caption
    heights = [bars[0].get_ydata().tolist() for bars in axes_of(first).containers]  # type: ignore[index]
    assert heights == [[pytest.approx(1.0), pytest.approx(2.0)], [pytest.approx(2.0), pytest.approx(4.0)]]


def test_the_phases_of_a_script_are_parts_of_its_time_from_launch_to_end() -> None:
    details = Details({}, (), {"train": 3.0, "wall": 12.0})
    with drawing():
        plot = phases(Subject(block(base(measure="sample_seconds")), lambda _: details, "01"))  # type: ignore[arg-type]
    assert plot.caption == "1x1: training is 25% of 12.00 s, rest of the program 75%."
