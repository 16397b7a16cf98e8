"""The model of a step in several processes: what has to hold for any figures."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.layout import Layout
from runner.tools.predict.communication import KINDS, Communication
from runner.tools.predict.figures import Figure
from runner.tools.predict.forecast import estimate
from runner.tools.predict.model import Cell, Inputs, Place
from runner.tools.predict.network import Network, Point
from runner.tools.predict.step import Bucket, Matrix, Step

LAYOUTS = st.sampled_from(["1x2", "2x1", "1x4", "2x2", "2+3", "4x8"]).map(Layout.parse)
COMMUNICATIONS = st.builds(
    Communication,
    kind=st.sampled_from(KINDS),
    number=st.integers(1, 64),
    accumulate=st.integers(1, 8),
)
SHARES = st.floats(0.0, 1.0)
SPREADS = st.floats(0.0, 0.5)
SECONDS = st.floats(1e-4, 10.0)
RATES = st.floats(1e5, 1e11)


@st.composite
def steps(draw: st.DrawFn) -> Step:
    sizes = draw(st.lists(st.floats(1e3, 1e8), min_size=1, max_size=8))
    ready = sorted(draw(st.lists(SHARES, min_size=len(sizes), max_size=len(sizes))))
    return Step(
        samples=64,
        buckets=tuple(Bucket(size, share) for size, share in zip(sizes, ready, strict=True)),
        gradient_bytes=sum(sizes),
        matrices=(Matrix(300, 200, draw(st.integers(0, 3))),),
        broadcast_bytes=draw(st.sampled_from([0.0, 1e4])),
        in_backward=draw(st.booleans()),
    )


@st.composite
def networks(draw: st.DrawFn) -> Network:
    latency, bandwidth = draw(st.floats(1e-6, 1e-2)), draw(RATES)
    sizes = sorted(draw(st.sets(st.integers(8, 10**8), max_size=6)))
    points = tuple(Point(size, draw(SECONDS), draw(st.floats(0, 1e-3))) for size in sizes)
    return Network(draw(st.integers(2, 8)), points, latency, bandwidth, draw(st.booleans()))


@st.composite
def figures(draw: st.DrawFn) -> Inputs:
    forward = draw(st.floats(0.0, 0.5))
    backward = draw(st.floats(0.0, 1.0 - forward))
    spread = draw(SPREADS)
    values = {"seconds": draw(SECONDS), "fixed": draw(SHARES), "memory": draw(RATES), "cast": draw(RATES)}
    values |= {"slower": draw(st.floats(0.9, 3.0)), "node": draw(st.floats(1.0, 3.0))}
    values |= {"waiting": draw(st.floats(0.0, 0.5)), "half": draw(st.floats(1.0, 4.0))}
    values |= dict.fromkeys(("latency", "transfer", "processor", "whole"), 1.0)
    spreads = {name: Figure(value, spread) for name, value in values.items()}
    return Inputs(forward=Figure(forward, spread / 10), backward=Figure(backward, spread / 10), **spreads)


@st.composite
def cells(draw: st.DrawFn) -> tuple[Step, Place, Communication]:
    place = Place(draw(LAYOUTS), draw(st.booleans()), draw(st.floats(0.0, 2.0)), draw(networks()))
    return draw(steps()), place, draw(COMMUNICATIONS)


def inputs_of(fixed: float, forward: float, backward: float) -> Inputs:
    """A step of 1 s, all of which is known."""
    return Inputs(Figure(1.0), fixed=Figure(fixed), forward=Figure(forward), backward=Figure(backward))


def linked(latency: float, bandwidth: float, layout: str = "2x1", *, strong: bool = True) -> Place:
    return Place(Layout.parse(layout), strong, 0.0, Network(2, (), latency, bandwidth))


@given(steps(), figures(), COMMUNICATIONS)
def test_one_process_is_one_without_an_interval(step: Step, inputs: Inputs, communication: Communication) -> None:
    cell = Cell(step, Place(Layout.parse("1x1"), True, 1.0, None), communication)
    told = estimate(cell, inputs)
    assert (told.value, told.low, told.high) == (1.0, None, None)
    assert not any(cell.parts(inputs.central()).losses.values())


@given(cells(), figures())
def test_the_parts_are_the_step_and_the_speed_up_follows_from_them(
    cell: tuple[Step, Place, Communication], inputs: Inputs
) -> None:
    made = Cell(*cell)
    values = replace(inputs, whole=Figure(1.0)).central()
    parts = made.parts(values)
    assert made.speedup(values) == pytest.approx(made.ranks * parts.ideal / parts.seconds, rel=1e-6)
    assert all(loss >= -1e-9 * parts.seconds for name, loss in parts.losses.items() if name != "neighbours")


@given(cells(), figures())
def test_the_interval_holds_the_prediction_and_is_the_same_each_time(
    cell: tuple[Step, Place, Communication], inputs: Inputs
) -> None:
    told = estimate(Cell(*cell), inputs)
    assert told.low is not None
    assert told.high is not None
    assert 0 < told.low <= told.value <= told.high
    assert estimate(Cell(*cell), inputs) == told


@given(steps(), figures(), COMMUNICATIONS, st.floats(1e-6, 1e-2), RATES, st.floats(1.0, 100.0), LAYOUTS)
def test_a_faster_link_is_never_slower(
    step: Step,
    inputs: Inputs,
    communication: Communication,
    latency: float,
    bandwidth: float,
    factor: float,
    layout: Layout,
) -> None:
    values = inputs.central()
    before = Cell(step, linked(latency, bandwidth, str(layout)), communication).speedup(values)
    wider = Cell(step, linked(latency, bandwidth * factor, str(layout)), communication).speedup(values)
    quicker = Cell(step, linked(latency / factor, bandwidth, str(layout)), communication).speedup(values)
    assert min(wider, quicker) >= before * (1 - 1e-9)


@given(steps(), st.sampled_from(["1x2", "2x2", "2+3"]), st.booleans())
def test_without_a_network_that_costs_and_without_neighbours_n_processes_are_n_times_as_fast(
    step: Step, layout: str, strong: bool
) -> None:
    inputs = inputs_of(0.0, 0.4, 0.6)
    cell = Cell(step, linked(1e-30, 1e30, layout, strong=strong), Communication())
    assert cell.speedup(inputs.central()) == pytest.approx(Layout.parse(layout).world_size)


@given(networks(), st.floats(1, 1e9), st.floats(1.0, 10.0), st.integers(2, 64))
def test_more_bytes_and_more_ranks_cost_no_less(network: Network, size: float, factor: float, ranks: int) -> None:
    cost = network.cost(size, ranks)
    assert min(cost) >= 0
    for other in (network.cost(size * factor, ranks), network.cost(size, ranks + 1)):
        assert other.seconds >= cost.seconds * (1 - 1e-9)
        assert other.processor >= cost.processor * (1 - 1e-9)


def test_a_sum_at_a_measured_size_costs_what_was_measured() -> None:
    network = Network(2, (Point(4096, 0.001, 0.0005), Point(1e6, 0.01, 0.004), Point(8e6, 0.1, 0.03)), 1e-4, 1e9)
    assert network.cost(1e6, 2).seconds == pytest.approx(0.01)
    assert network.cost(1e6, 2).processor == pytest.approx(0.004)
    assert network.cost(16e6, 2).seconds == pytest.approx(0.2)
    assert network.cost(100, 2).seconds == pytest.approx(0.001)


def test_a_ring_of_single_messages_sends_each_share_twice_around() -> None:
    cost = Network(2, (), latency=1e-3, bandwidth=1e8).cost(1e8, 4)
    assert cost.latency == pytest.approx(2 * 3 * 1e-3)
    assert cost.transfer == pytest.approx(2 * 3 / 4)


def exposed(buckets: list[Bucket], bandwidth: float) -> float:
    """Seconds of a step of 1 s that an exchange adds, of two processes with a backward pass of 0.6 s."""
    step = Step(64, tuple(buckets), sum(bucket.size for bucket in buckets))
    inputs = inputs_of(0.0, 0.4, 0.6)
    parts = Cell(step, linked(0.0, bandwidth, strong=False), Communication()).parts(inputs.central())
    return parts.seconds - parts.ideal


def test_what_is_exchanged_during_backward_is_free_but_for_its_end() -> None:
    early, late = Bucket(3e6, 0.5), Bucket(1e6, 1.0)
    assert exposed([early, late], 1e7) == pytest.approx(0.1)  # the first is over when the last begins
    assert exposed([early, late], 1e6) == pytest.approx(0.3 + 4 - 0.6)  # the first bucket is what is waited for
    assert exposed([Bucket(4e6, 1.0)], 1e7) == pytest.approx(0.4)  # nothing begins before the end


def test_where_each_core_has_a_process_an_exchange_takes_time_from_computing() -> None:
    step = Step(64, (Bucket(1e6, 0.0),), 1e6)
    inputs = inputs_of(0.0, 0.4, 0.6)
    network = Network(2, (Point(4096, 0.0, 0.0), Point(1e6, 0.1, 0.08)), 1e-4, 1e9)
    idle, crowded = (
        Cell(step, Place(Layout.parse("1x2"), False, share, network), Communication()).parts(inputs.central())
        for share in (0.0, 1.0)
    )
    assert idle.seconds == pytest.approx(1.0)
    assert crowded.processor == pytest.approx(0.08)
    assert crowded.seconds == pytest.approx(1.08)


def test_strong_scaling_does_not_share_what_each_process_does_for_itself() -> None:
    step = Step(64, (Bucket(1.0, 1.0),), 1.0)
    inputs = inputs_of(0.2, 0.3, 0.5)
    strong, weak = (
        Cell(step, linked(0.0, 1e12, strong=choice), Communication()).speedup(inputs.central())
        for choice in (True, False)
    )
    assert strong == pytest.approx(1 / (0.2 + 0.4))
    assert weak == pytest.approx(2.0)
