"""The formulas against SciPy's."""

import math
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from runner.report.columns import decimals
from runner.report.statistics import (
    Difference,
    accuracies_agree,
    holm,
    more_for_width,
    paired,
    repeats_to_find,
    typical,
    welch,
)

TIMES = st.lists(st.floats(0.01, 1e5), min_size=2, max_size=12)


@given(TIMES)
def test_the_typical_time_is_the_geometric_mean_with_student_s_interval(seconds: list[float]) -> None:
    assert typical(seconds).value == pytest.approx(stats.gmean(seconds), rel=1e-9)
    assert typical(seconds) == paired(seconds, [1.0] * len(seconds)).estimate()


@given(TIMES, TIMES, st.booleans())
def test_the_speed_up_is_welch_s_interval_on_logarithms_or_that_of_student_s_paired_test(
    base: list[float], other: list[float], pairs: bool
) -> None:
    if pairs:
        base, other = (list(side) for side in zip(*zip(base, other, strict=False), strict=True))
    first, second = np.log(base), np.log(other)
    assume(min(np.std(side) for side in ([first - second] if pairs else [first, second])) > 1e-6)  # SciPy warns of less
    found = (paired if pairs else welch)(base, other)
    estimate = found.estimate()
    theirs = stats.ttest_rel(first, second) if pairs else stats.ttest_ind(first, second, equal_var=False)
    interval, of_three = (theirs.confidence_interval(1 - 0.05 / tests) for tests in (1, 3))
    assert found.p == pytest.approx(theirs.pvalue, rel=1e-6)
    assert found.half_width(3) == pytest.approx((of_three.high - of_three.low) / 2, rel=1e-6)
    expected = np.exp([np.mean(first) - np.mean(second), interval.low, interval.high])
    assert [estimate.value, estimate.low, estimate.high] == pytest.approx(expected, rel=1e-6)


@given(st.floats(0.01, 1e5), st.integers(2, 20), st.lists(st.floats(0.01, 1e5), min_size=1, max_size=20))
def test_times_that_are_all_the_same_on_a_side_have_no_interval(seconds: float, here: int, there: list[float]) -> None:
    same = [seconds] * here
    assert astuple(typical(same)) == (pytest.approx(seconds), None, None)
    assert astuple(welch(same, same).estimate()) == (1.0, None, None)
    for difference in (welch(same, there), welch(there, same), paired(there, [2 * value for value in there])):
        assert (difference.p, difference.estimate().low) == (None, None)


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_s_correction_is_its_definition(values: list[float]) -> None:
    for value, found in zip(values, holm(values), strict=True):
        at_most = (min(1.0, sum(other >= p for other in values) * p) for p in values if p <= value)
        assert found == pytest.approx(max(at_most))


def test_more_repeats_are_as_many_as_narrow_the_interval_and_not_one_more() -> None:
    seen = Difference(0.3, ((0.03**2, 3), (0.05**2, 4)))
    more = more_for_width(seen, 0.05)
    widths = [seen.with_repeats([3 + count, 4 + count]).half_width() for count in (more - 1, more)]
    assert widths[1] <= math.log(1.05) < widths[0]
    assert more_for_width(seen, 1.0) == 0
    assert more_for_width(seen, 0.0001) is None
    assert more_for_width(Difference(0.3, ((None, 1), (0.1, 4))), 0.05) is None


def test_a_known_spread_needs_the_repeats_of_the_textbooks() -> None:
    """17 a side for a difference of one standard deviation, 23 for power 90%: Cohen's tables, for two-sided 5%."""
    known = Difference(0.0, ((1.0, 100_000), (1.0, 100_000)))
    assert repeats_to_find(known, 1.0, 0.8) == pytest.approx(17, abs=1)
    assert repeats_to_find(known, 1.0, 0.9) == pytest.approx(23, abs=1)
    assert repeats_to_find(known, 1e-9) is None


@pytest.mark.parametrize(
    ("first", "second", "samples", "agree"),
    [
        (0.9700, 0.9745, 10_000, True),
        (0.9700, 0.9755, 10_000, False),
        (1.0, 296 / 297, 297, True),
        (0.0, 1.0, 1, True),
    ],
)
def test_accuracies_agree_where_the_test_samples_explain_the_difference(
    first: float, second: float, samples: int, agree: bool
) -> None:
    assert accuracies_agree(first, second, samples) is accuracies_agree(second, first, samples) is agree


def test_little_seconds_keep_three_digits() -> None:
    shown = {12.3456: "12.35", 0.1: "0.10", 0.0999: "0.0999", 0.000284: "0.000284", 1.5e-6: "0.00000150", 0: "0.00"}
    assert {seconds: f"{seconds:.{decimals(seconds)}f}" for seconds in shown} == shown
