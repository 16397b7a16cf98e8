"""A results folder -> a prediction: which runs it is made from, and what it says of records that lack something."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from runner.core.layout import Layout
from runner.definitions.axes import identity
from runner.report.reading import read_results
from runner.report.statistics import Estimate, typical
from runner.report.table import Table
from runner.tools.predict import measured_table
from runner.tools.predict.answer import Answer, answer, to_plain
from runner.tools.predict.communication import Communication
from runner.tools.predict.forecast import NEAR_BEST
from runner.tools.predict.links import Assumed
from runner.tools.predict.starts import Reader, Start, Wanted
from runner.tools.predict.words import head_lines, notes, table
from tests.support.predictions import GRADIENTS, PROFILE, STEP_SECONDS, measure_network, train

SLOW, FAST = 1e7, 1e9
ANY, NOTHING = Wanted(), Assumed()


def tables(results: Path, experiment: str | None = None) -> list[Table]:
    return measured_table.tables(results, read_results(results).runs, experiment)


def start_of(results: Path, wanted: Wanted = ANY, gradients: float | None = None) -> Start:
    [start] = Reader(results, read_results(results).runs).starts("tiny", wanted, gradients)
    return start


def told(
    results: Path,
    *layouts: str,
    choices: tuple[str, ...] = ("ddp",),
    assumed: Assumed = NOTHING,
    wanted: Wanted = ANY,
) -> Answer:
    start = start_of(results, wanted, assumed.gradients)
    assert start.base is not None, start.why
    chosen = [Communication.parse(choice) for choice in choices]
    return answer(start, start.base, map(Layout.parse, layouts), chosen, assumed)


def speedup(found: Answer, layout: str | None = None, communication: str | None = None) -> Estimate:
    """Return the speed-up of a line: of the last one, or of the one with a layout and a communication."""
    lines = [line.expected for line in found.lines]
    named = [line for line in lines if (str(line.layout), str(line.communication)) == (layout, communication)]
    estimate = (named or lines)[-1].speedup
    assert estimate is not None
    return estimate


def value(found: Answer, layout: str | None = None, communication: str | None = None) -> float:
    return speedup(found, layout, communication).value


def width(estimate: Estimate) -> float:
    """Return how many times the low end of an interval its high end is."""
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.high / estimate.low


def test_a_prediction_follows_from_the_step_and_the_sums(results: Path) -> None:
    train(results)
    measure_network(results, "2x1", SLOW)
    found = told(results, "2x1")
    # A tenth does not shrink; 10 MB at 10 MB/s are 1 s, of which backward hides next to nothing.
    assert value(found) == pytest.approx(STEP_SECONDS / (0.055 + 1.0), rel=0.1)
    assert found.lines[0].expected.limit[0] == "bandwidth"
    assert start_of(results).base.step.gradient_bytes == GRADIENTS  # type: ignore[union-attr]


def test_less_communication_helps_where_the_link_is_slow_and_the_cheapest_is_named(results: Path) -> None:
    train(results)
    for layout in ("2x1", "4x1"):
        measure_network(results, layout, 1e8)
    found = told(results, "1x1", "2x1", "4x1", choices=("ddp", "fp16", "powersgd=4", "local-sgd=16"))
    two = [value(found, "2x1", name) for name in ("ddp", "fp16", "powersgd=4")]
    assert two == sorted(two)
    known = [line.expected for line in found.lines if line.expected.speedup]
    best = max(row.speedup.value for row in known if row.speedup)
    assert found.cheapest is not None
    assert found.cheapest.price == min(
        row.price for row in known if row.speedup and row.speedup.value >= NEAR_BEST * best
    )


def test_what_goes_through_the_memory_of_one_machine_costs_little_and_is_not_predicted_for_two(results: Path) -> None:
    train(results)
    for layout in ("1x2", "2x1"):
        measure_network(results, layout, SLOW)
    found = told(results, "1x2", "2x1", choices=("ddp", "shared-memory"))
    assert value(found, "1x2", "shared-memory") > 1.5 * value(found, "1x2", "ddp")
    assert [str(line.expected.layout) for line in found.lines if line.expected.speedup is None] == ["2x1"]
    assert "not known: 2x1 shared-memory: it is for processes of one machine" in notes(found, "links")


def test_runs_with_the_newest_args_count_and_disturbed_ones_only_if_there_are_no_others(results: Path) -> None:
    train(results, step_seconds=1.0)
    train(results, args={"epochs": 2})
    train(results, step_seconds=0.12, args={"epochs": 2})
    base = start_of(results).base
    assert base is not None
    assert base.inputs.seconds.value == pytest.approx((0.1 * 0.12) ** 0.5)


@pytest.mark.parametrize("seconds", [(0.08, 0.1, 0.14), (0.05, 0.1, 0.2), (0.09, 0.11)])
def test_an_interval_is_no_narrower_than_the_repeats_of_one_process_say(
    results: Path, seconds: tuple[float, ...]
) -> None:
    for step_seconds in seconds:
        train(results, step_seconds=step_seconds)
    measure_network(results, "1x2", FAST)
    assert width(speedup(told(results, "1x2"))) >= width(typical(list(seconds)))


def test_a_network_of_the_same_kind_stands_in_and_the_command_that_measures_is_named(results: Path) -> None:
    train(results)
    measure_network(results, "2x1", FAST)
    found = told(results, "2x2", "1x2")
    assert found.unmeasured == ("1x2", "2x2")
    assert found.network_runs == {"2x1": 1}
    assert [line.expected.speedup is not None for line in found.lines] == [False, True]
    [unknown, command] = [note for note in notes(found, "links") if "network" in note]
    assert unknown == "not known: 1x2 ddp: the network"
    assert command.endswith("runner run links --layout 1x2 --layout 2x2")


def test_what_is_read_elsewhere_is_less_certain(results: Path) -> None:
    train(results)
    measure_network(results, "2x1", 1e8)
    here = width(speedup(told(results, "2x1")))
    measure_network(results, "4x1", 1e8)
    for run in (results / "links").iterdir():
        if '"2x1"' in (run / "run.json").read_text():
            shutil.rmtree(run)
    assert width(speedup(told(results, "2x1"))) > here


@pytest.mark.parametrize("measured", [False, True])
def test_an_assumed_link_takes_the_place_of_a_measured_one_or_of_none(results: Path, measured: bool) -> None:
    train(results)
    if measured:
        measure_network(results, "2x1", FAST)
    found = told(results, "2x1", assumed=Assumed(latency=1e-4, bandwidth=1e7))
    assert value(found) == pytest.approx(STEP_SECONDS / (0.055 + 1.0), rel=0.1)
    faster = told(results, "2x1", assumed=Assumed(latency=1e-4, bandwidth=1e9))
    assert value(faster) > value(found)


def test_the_measurement_stands_beside_the_prediction_and_is_no_part_of_it(results: Path) -> None:
    train(results)
    measure_network(results, "2x1", FAST)
    before = told(results, "2x1")
    train(results, "2x1", step_seconds=0.08)
    after = told(results, "2x1")
    assert value(before) == value(after)
    assert before.lines[0].measured is None
    measured = after.lines[0].measured
    assert measured is not None
    assert measured.value == pytest.approx(0.1 / 0.08)
    assert len(table(before)[0]) + 1 == len(table(after)[0])
    [shown] = tables(results)
    assert shown.lines[0][:3] == ["2x1", "1", "1.25"]


def test_no_table_is_made_without_a_network_or_without_several_processes(results: Path) -> None:
    train(results)
    train(results, "2x1")
    assert tables(results) == []
    measure_network(results, "1x2")
    assert tables(results) == []  # one machine says nothing of two nodes
    measure_network(results, "2x1")
    assert len(tables(results)) == 1
    assert tables(results, "links") == []


def test_runs_with_another_communication_are_predicted_as_such(results: Path) -> None:
    train(results, axes={"communication": "ddp"})
    train(results, "2x1", 0.2, axes={"communication": "ddp"})
    train(results, "2x1", 0.1, axes={"communication": "fp16"})
    measure_network(results, "2x1", 1e8)
    [shown] = tables(results)
    assert [line[:2] for line in shown.lines] == [["2x1", "ddp"], ["2x1", "fp16"]]


def test_runs_that_move_other_bytes_than_predicted_are_named(results: Path) -> None:
    train(results)
    measure_network(results, "2x1")
    train(results, "2x1", moved=2 * GRADIENTS)
    assert not [note for note in notes(told(results, "2x1"), "links") if "moved" in note]
    train(results, "2x1", moved=GRADIENTS)
    assert "2x1 ddp moved 10 MB a step, 20 MB were predicted" in notes(told(results, "2x1"), "links")


def test_runs_with_other_options_of_the_target_are_kept_apart(results: Path) -> None:
    train(results)
    measure_network(results, "2x1", FAST, options={"link": "1gbit"})
    measure_network(results, "2x1", SLOW, options={"link": "100mbit"})
    assert value(told(results, "2x1")) < 0.2  # the newest
    assert value(told(results, "2x1", wanted=Wanted(options={"link": "1gbit"}))) > 1.4


def test_all_layouts_are_predicted_from_networks_over_one_link_which_is_named(results: Path) -> None:
    train(results)
    measure_network(results, "4x1", SLOW, options={"link": "100mbit"})
    measure_network(results, "2x1", FAST, options={"link": "1gbit"})
    found = told(results, "2x1", "4x1")
    assert found.network_runs == {"2x1": 1}  # that of 4x1 is another link
    assert head_lines(found)[1] == "network: measured in 1 at 2x1, link 1gbit"
    assert notes(found, "links")[-1].endswith("runner run links --layout 4x1 --with link=1gbit")


def test_a_network_of_another_target_stands_in_by_name(results: Path) -> None:
    train(results)
    measure_network(results, "2x1", FAST, target="compose")
    assert head_lines(told(results, "2x1"))[1] == "network: measured in 1 at 2x1, target compose"


def test_runs_are_chosen_by_the_value_of_an_axis_however_it_is_written(results: Path) -> None:
    train(results, axes={"lr": 0.001})
    train(results, axes={"lr": 0.01})
    start = start_of(results, Wanted({"lr": {identity(1e-3)}}))
    assert [run.axes["lr"] for run in start.alone] == [0.001]


def test_steps_that_add_up_several_batches_already_exchange_once(results: Path) -> None:
    train(results, args={"accumulate": 4})
    measure_network(results, "2x1", SLOW)
    train(results, "2x1", moved=2 * GRADIENTS, args={"accumulate": 4})
    once, more = (value(told(results, "2x1", choices=(words,))) for words in ("ddp+accumulate=4", "ddp+accumulate=16"))
    train(results, args={"accumulate": 1})
    measured = told(results, "2x1")
    assert once == pytest.approx(value(measured))
    assert more > 2 * once
    said = notes(told(results, "2x1", choices=("ddp+accumulate=4",)), "links")
    assert not [note for note in said if "moved" in note]


def test_assumed_gradients_have_as_many_more_matrices(results: Path) -> None:
    train(results)
    measure_network(results, "2x1", SLOW)
    small, large = (
        told(results, "2x1", choices=("powersgd=2",), assumed=Assumed(gradients=size)).lines[-1].moved[0]
        for size in (GRADIENTS / 10, GRADIENTS * 10)
    )
    assert large == pytest.approx(100 * small)
    assert small > 0


def test_each_link_and_each_limit_of_cores_is_predicted_from_the_network_measured_with_it(results: Path) -> None:
    train(results, options={"cpus": "1"})
    for link, speed in (("1gbit", FAST), ("100mbit", SLOW)):
        options = {"link": link, "cpus": "1,1"}
        measure_network(results, "2x1", speed, options=options)
        train(results, "2x1", 0.06 if link == "1gbit" else 1.0, options=options)
    slow, fast = tables(results)
    assert [slow.title.split(": ")[0], fast.title.split(": ")[0]] == [
        "tiny cpus=1, target local, link 100mbit",
        "tiny cpus=1, target local, link 1gbit",
    ]
    assert [line[1:3] for line in (*slow.lines, *fast.lines)] == [["1", "0.100"], ["1", "1.67"]]
    predicted = [float(shown.lines[0][3].split()[0]) for shown in (slow, fast)]
    assert predicted[0] < 0.2
    assert predicted[1] > 1.4
    assert tables(results, "tiny") == [slow, fast]


@pytest.mark.parametrize(
    "profile",
    [
        {**PROFILE, "buckets": "many", "matrices": [[-1, 2, "x"], 7], "element_bytes": 10**9},
        {**PROFILE, "forward_share": 7, "backward_share": -1, "half_seconds": 0},
        {**PROFILE, "seconds": 1e-9, "half_seconds": 1e9, "samples": -3},
        {**PROFILE, "buckets": [[1e300, 5, 1]], "broadcast_bytes": "no"},
        {**PROFILE, "ddp": False},
    ],
)
def test_whatever_a_record_says_of_its_step_the_answer_is_a_number(results: Path, profile: Any) -> None:
    train(results, profile=profile)
    measure_network(results, "2x1")
    found = told(results, "2x1", "2x2", choices=("ddp", "fp16", "powersgd=4", "diloco=4+accumulate=2"))
    for line in found.lines:
        estimate = line.expected.speedup
        assert estimate is not None
        assert 0 < estimate.low <= estimate.high < 10  # type: ignore[operator]
    assert to_plain(found)["rows"]


@pytest.mark.parametrize("profile", [None, [], {"seconds": 0}, {"gradient_bytes": -5}])
def test_a_run_that_does_not_report_its_gradients_needs_them_named(results: Path, profile: Any) -> None:
    train(results, profile=profile)
    measure_network(results, "2x1")
    start = start_of(results)
    assert start.base is None
    assert start.why.endswith("--assume gradients=90MB")
    found = told(results, "2x1", assumed=Assumed(gradients=1e7))
    assert "forward and backward are taken to be 30% and 60% of it" in found.lacks[0]
