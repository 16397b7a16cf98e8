"""Invalid values from outside become None."""

import math

from runner.core.values import LARGEST, number, positive, spell_non_finite, whole


def test_what_is_no_measured_figure_or_beyond_a_bound_is_null() -> None:
    for value in (math.nan, math.inf, -math.inf, 1e308, 10**400, True, "1", None, [1]):
        assert number(value) is positive(value) is None
    assert (number(LARGEST), number(-1.0, 0.0), whole(2**63), whole(2**63 - 1)) == (LARGEST, None, None, 2**63 - 1)
    assert (positive(0), positive(-1.0), positive(1e-300), positive(2)) == (None, None, None, 2.0)


def test_floats_that_json_lacks_are_words_and_stay_apart() -> None:
    value = {"lr": math.nan, "rates": [math.inf, -math.inf, 1.0], "seed": 1}
    assert spell_non_finite(value) == {"lr": "nan", "rates": ["inf", "-inf", 1.0], "seed": 1}
