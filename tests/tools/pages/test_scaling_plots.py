"""Plots over processes and over cells: what is drawn, over what, and what the sentence below says."""

from typing import Any

from runner.report.run_summary import RunSummary
from runner.tools.pages.details import DetailReader, Details
from runner.tools.pages.scaling_plots import MOST_CELLS, phases, speed_up
from runner.tools.pages.style import Plot, drawing
from runner.tools.pages.subject import Subject
from tests.support.summaries import base, block, pair

OVER_FIRST = {"baseline": {"layout": "1x1", "way": "way-0"}}


def plot_of(runs: list[RunSummary], definition: dict[str, Any] | None = None) -> Plot:
    with drawing():
        plot = speed_up(Subject(block(runs, definition), DetailReader(), "01"))
    assert isinstance(plot, Plot)
    return plot


def axes_of(plot: Plot) -> Any:
    return plot.figure.axes[0]


def legend(plot: Plot) -> list[str]:
    return axes_of(plot).get_legend_handles_labels()[1]


def about(seconds: float) -> list[float]:
    return [seconds, 1.01 * seconds, 0.99 * seconds]


def test_of_too_many_lines_the_best_are_drawn_a_claim_before_a_figure_and_the_others_are_counted() -> None:
    runs = base(about(10.0), axes={"way": "way-0"})
    for number in range(8):  # the later, the faster; the last ones run once and have no claim
        runs += pair(about(6.0 - number / 2)[: 1 if number >= 4 else 3], axes={"way": f"way-{number}"})
    plot = plot_of(runs, OVER_FIRST)
    claimed = [f"way-{number}" for number in reversed(range(4))]
    others = [f"way-{number}" for number in reversed(range(4, 8))]
    assert legend(plot) == ["ideal", *[*claimed, *others][:6]]
    assert plot.caption.endswith(" 2 more in the table.")


def test_of_too_many_cells_those_with_a_claim_are_drawn_and_the_others_are_counted() -> None:
    runs = base(axes={"way": "way-0"})
    for number in range(10, 49):
        runs += base(about(5.0)[: 3 if number == 48 else 1], axes={"way": f"way-{number}"})
    plot = plot_of(runs, OVER_FIRST)
    names = [text.get_text() for text in axes_of(plot).get_yticklabels()]
    assert (len(names), names[0]) == (MOST_CELLS, "1x1 way-48")
    assert plot.caption.startswith("1x1 way-48 is 2.00")
    assert plot.caption.endswith(" 16 more in the table.")


def test_an_interval_many_times_as_wide_does_not_flatten_the_speed_ups() -> None:
    assert axes_of(plot_of(base([10.0, 20.0, 5.0]) + pair([6.0, 1.0, 20.0]))).get_ylim()[1] < 4


def test_over_a_baseline_of_two_processes_the_ideal_line_and_the_words_are_over_two() -> None:
    published = {"rows": [{"layout": "1x2", "hardware": "2x A100", "speedup": 1.7}], "source": "s"}
    runs = pair(about(10.0)) + pair(about(5.0), layout="1x4", processes=4)
    plot = plot_of(runs, {"baseline": {"layout": "1x2"}, "published": published})
    assert axes_of(plot).get_ylabel() == "speed-up over 2 processes"
    (ideal,) = [line for line in axes_of(plot).get_lines() if line.get_label() == "ideal"]
    assert ideal.get_xydata().tolist() == [[2, 1], [4, 2]]
    assert "and this may be claimed; ideal is 2." in plot.caption
    assert legend(plot) == ["ideal", "measured"], "what was published is over one process"


def test_over_baselines_of_unlike_sizes_no_ideal_is_drawn() -> None:
    whole, half = {"way": "whole"}, {"way": "half"}
    runs = base(about(10.0), axes=whole) + pair(about(5.0), axes=whole)
    runs += base(about(8.0), axes=half, processes=2, device="cuda")
    runs += pair(about(4.0), axes=half, processes=4, device="cuda")
    plot = plot_of(runs)
    assert axes_of(plot).get_xlabel().startswith("speed-up over the baseline")
    assert len(axes_of(plot).get_yticklabels()) == 4


def test_the_phases_of_a_script_are_parts_of_its_time_from_launch_to_end() -> None:
    details = Details({}, (), {"train": 3.0, "wall": 12.0})
    with drawing():
        plot = phases(Subject(block(base(measure="sample_seconds")), lambda _: details, "01"))  # type: ignore[arg-type]
    assert plot.caption == "1x1: training is 25% of 12.00 s, rest of the program 75%."
