"""Cases of one test of which `make test` tries a few, and `make test-real` the others."""

from collections.abc import Iterable
from typing import Any

import pytest


def slow_but(kept: Iterable[Any], cases: Iterable[Any]) -> list[Any]:
    """Return the cases of `pytest.mark.parametrize`; all that are not kept are slow. A tuple is several values."""
    kept = list(kept)
    params = []
    for case in cases:
        values = case if type(case) is tuple else (case,)  # a named one is one value
        params.append(pytest.param(*values, marks=[] if case in kept else pytest.mark.slow))
    return params
