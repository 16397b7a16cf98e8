"""What runs that measured a network say of a layout, whatever stands in their records."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.layout import Layout
from runner.report.statistics import typical
from runner.tools.predict.base import Base
from runner.tools.predict.communication import Communication
from runner.tools.predict.figures import Figure, between, of_sample
from runner.tools.predict.forecast import expect
from runner.tools.predict.links import Assumed
from runner.tools.predict.model import Inputs
from runner.tools.predict.place import Measured, setting_of
from runner.tools.predict.step import Bucket, Step
from tests.support.summaries import run

NAMES = [
    *("latency_seconds", "bytes_per_second", "compute_slowdown", "memory_slowdown", "node_slowdown", "waiting_share"),
    *("memory_bytes_per_second", "cast_bytes_per_second", "half_all_reduce_1048576_seconds"),
    *(f"all_reduce_{size}_seconds" for size in (0, 4096, 1048576, 999999999999)),
    *(f"all_reduce_{size}_processor_seconds" for size in (4096, 1048576)),
]
METRICS = st.dictionaries(st.sampled_from(NAMES), st.floats(allow_nan=True, allow_infinity=True), max_size=14)
LAYOUTS = st.sampled_from(["1x2", "2x1", "1x4", "2x2", "2+3", "3x1"])
STEP = Step(64, (Bucket(1e6, 0.5), Bucket(3e6, 1.0)), 4e6)


def base(cores: int = 2, **changes: Any) -> Base:
    inputs = Inputs(Figure(0.1), fixed=Figure(0.1), forward=Figure(0.3), backward=Figure(0.6))
    return Base((run(cores=cores, **changes),), STEP, inputs, threads=1)


def measured(layout: str, *metrics: dict[str, float], machines: tuple[object, ...] = ("a", "b", "c")) -> Measured:
    parsed = Layout.parse(layout)
    runs = tuple(run(layout=layout) for _ in metrics)
    return Measured(parsed, runs, metrics, machines[: parsed.nodes])


LINK = {"latency_seconds": 1e-4, "bytes_per_second": 1e9}
QUIET = {**LINK, "compute_slowdown": 1.1, "memory_slowdown": 1.1, "waiting_share": 0.02, "node_slowdown": 1.0}


@given(st.lists(METRICS, min_size=1, max_size=3), LAYOUTS, LAYOUTS, st.sampled_from([0, 1, 2, 64]), st.booleans())
def test_whatever_the_records_hold_a_prediction_is_a_number_or_none(
    metrics: list[dict[str, float]], at: str, layout: str, cores: int, linked: bool
) -> None:
    assumed = Assumed(1e-4, 1e8) if linked else Assumed()
    setting = setting_of(Layout.parse(layout), base(cores), [measured(at, *metrics)], assumed)
    told = expect(base(cores), setting, Layout.parse(layout), Communication())
    if told.speedup is None:
        assert setting.place.network is None
        return
    assert told.speedup.low is not None
    assert told.speedup.high is not None
    assert 0 <= told.speedup.low <= told.speedup.value <= told.speedup.high
    assert math.isfinite(told.speedup.high)


def test_neighbours_of_one_machine_are_those_of_all_nodes_that_share_it() -> None:
    here = setting_of(Layout.parse("2x1"), base(), [measured("2x1", QUIET, machines=("a", "a"))], Assumed())
    apart = setting_of(Layout.parse("2x1"), base(), [measured("2x1", QUIET)], Assumed())
    assert here.place.crowded == 1.0
    assert apart.place.crowded == 0.0


def test_more_processes_than_cores_wait_for_one() -> None:
    network = measured("1x2", QUIET)
    two, four = (setting_of(Layout.parse(layout), base(), [network], Assumed()) for layout in ("1x2", "1x4"))
    assert two.inputs.slower.value == pytest.approx(1.1)
    assert four.inputs.slower.value > 2
    assert setting_of(Layout.parse("1x4"), base(8), [network], Assumed()).inputs.slower.value < 1.5


def test_processes_on_gpus_have_them_to_themselves() -> None:
    setting = setting_of(Layout.parse("1x8"), base(device="cuda"), [measured("1x2", QUIET)], Assumed())
    assert setting.inputs.slower.value == 1.0
    assert setting.place.crowded == 0.0


def test_what_is_not_measured_is_said() -> None:
    setting = setting_of(Layout.parse("2+3"), base(), [measured("2x1", LINK)], Assumed())
    said = "; ".join(setting.lacks)
    assert setting.missing
    assert "sums at 2+3: taken to be a ring of single messages" in said
    assert "what 3 processes on a machine cost each other: taken to be" in said
    assert "how unlike the nodes of 2+3 are: taken to be alike" in said


def test_unlike_nodes_wait_for_the_slowest() -> None:
    setting = setting_of(Layout.parse("2x1"), base(), [measured("2x1", {**QUIET, "node_slowdown": 2.0})], Assumed())
    told = expect(base(), setting, Layout.parse("2x1"), Communication())
    assert setting.inputs.node.value == pytest.approx(2.0)
    assert told.limit[0] == "node"


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=10), st.floats(0.01, 0.2), st.floats(0.2, 0.5))
def test_a_sample_is_between_its_ends_and_no_more_certain_than_its_repeats(
    values: list[float], least: float, alone: float
) -> None:
    told = of_sample(values, least, alone)
    assert min(values) * (1 - 1e-9) <= told.value <= max(values) * (1 + 1e-9)
    assert told.spread >= (least if len(values) > 1 else alone)
    repeats = typical(values)
    if repeats.low is not None and repeats.high is not None and repeats.high < 1e300:
        assert math.exp(1.96 * told.spread) >= repeats.high / repeats.value * (1 - 1e-3)


def test_a_range_is_in_its_middle() -> None:
    assert between(1.0, 4.0).value == 2.0
    assert between(3.0, 3.0).spread == 0.0
