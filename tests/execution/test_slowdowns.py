"""Real runs that are slowed down on purpose: the right rank and cause are named, and none for a clean run.

Node 1 gets a tenth of a core, not half of one, which may be all that other work on this machine leaves to a rank.
"""

from functools import partial
from pathlib import Path

import pytest

from bench.slow_runs import KINDS, found_in, is_right, quota, why_not
from runner.report.bottlenecks import explain

RUNS = {**KINDS, "quota": partial(quota, cores=0.1)}


@pytest.mark.slow
@pytest.mark.real_processes
@pytest.mark.parametrize(
    "kind",  # tests/containers/test_explain.py tries a quota too
    [*(kind for kind in KINDS if kind != "quota"), pytest.param("quota", marks=pytest.mark.series)],
)
def test_the_right_rank_and_cause_are_named(kind: str, tmp_path: Path) -> None:
    if why := why_not(kind):
        pytest.skip(why)
    record = RUNS[kind](tmp_path)
    assert is_right(kind, found_in(record)), explain(record)
