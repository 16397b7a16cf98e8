"""Real runs that are slowed down on purpose: the right rank and cause are named; in a clean one, none."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.slowdowns import KINDS, is_right, why_not


@pytest.mark.real_processes
@pytest.mark.parametrize("kind", KINDS)
def test_the_right_rank_and_cause_are_named(kind: str, tmp_path: Path) -> None:
    if why := why_not(kind):
        pytest.skip(why)
    found = KINDS[kind](tmp_path)
    assert is_right(kind, found), found
