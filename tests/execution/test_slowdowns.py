"""Real runs that are slowed down on purpose: the right rank and cause are named, and none for a clean run.

Node 1 gets a tenth of a core, not half of one, which may be all that other work on this machine leaves to a rank.
"""

import re
from functools import partial
from pathlib import Path

import pytest

from bench.slow_runs import KINDS, found_in, is_right, quota, why_not
from runner.report.bottlenecks import explain

RUNS = {**KINDS, "quota": partial(quota, cores=0.1)}
SAYS = {
    "clean": r"What slows it: no rank and no link stands out|What slows it: the ranks wait for each other",
    "loader": r"What slows it: rank 1 \(node 0, \S+\) by its loader: it waits for batches \d+% of the training",
    "quota": r"What slows it: rank 1 \(node 1, \S+\) by a CPU quota: held back \d+% of the training; the others wait",
    "link": r"What slows it: rank 1 \(node 1, \S+\) by its link: \d\d Mbit/s from rank 1 to rank 0",
}


@pytest.mark.slow
@pytest.mark.real_processes
@pytest.mark.parametrize(
    "kind",
    [
        # tests/containers/test_explain.py tries a quota too
        pytest.param(kind, marks=[pytest.mark.series] * (kind == "quota"))
        for kind in KINDS
    ],
)
def test_the_right_rank_and_cause_are_named(kind: str, tmp_path: Path) -> None:
    if why := why_not(kind):
        pytest.skip(why)
    record = RUNS[kind](tmp_path)
    assert is_right(kind, found_in(record)), explain(record)
    assert re.search(SAYS[kind], "\n".join(explain(record)[0]))  # behind what disturbed it
