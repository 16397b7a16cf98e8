"""Mark most cases of a test as slow, so that `make test` runs only a few."""

from collections.abc import Iterable
from typing import Any

import pytest


def slow_but(kept: Iterable[Any], cases: Iterable[Any]) -> list[Any]:
    """Return the cases for `pytest.mark.parametrize`, all but the kept ones marked slow; a tuple has several values."""
    kept = list(kept)
    params = []
    for case in cases:
        values = case if type(case) is tuple else (case,)  # a named tuple is one value
        params.append(pytest.param(*values, marks=[] if case in kept else pytest.mark.slow))
    return params
