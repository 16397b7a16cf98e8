"""Each cell over the smallest one of its axes: what may be claimed of that, together."""

from runner.report.rows import Block, Row
from runner.report.run_summary import RunSummary
from runner.tools.pages.steps import steps_of
from tests.support.summaries import ONE, base, block, pair

DECLARED = {"baseline": {"layout": "1x1", "way": "a"}}
ALMOST = (9.62, 9.75, 9.84)
"""Seconds whose difference from `ONE` alone has a p-value of about 0.03."""


def four(seconds: tuple[float, ...], way: str) -> list[RunSummary]:
    return pair(seconds, layout="1x4", processes=4, axes={"way": way})


def steps(of: Block) -> dict[str, Row]:
    return {step.first.cell: step for step in steps_of(of)}


def test_over_the_baseline_of_the_table_the_claims_are_those_of_the_table() -> None:
    found = block(base() + pair() + four(ALMOST, "x")[:2])
    assert {cell: step.claimed for cell, step in steps(found).items()} == {
        row.first.cell: row.claimed for row in found.rows if row.first.axes == {}
    } | {"1x4 x": "the baseline"}


def test_over_another_baseline_a_speed_up_is_judged_anew_and_claims_hold_together() -> None:
    of_a = base(axes={"way": "a"}) + pair((6.0, 6.1, 5.9), axes={"way": "a"})
    alone = steps(block(of_a + pair(ONE, axes={"way": "b"}) + four((6.0, 6.1, 5.9), "b"), DECLARED))
    assert alone["1x4 b"].baseline.first.cell == "1x2 b"
    assert alone["1x4 b"].claimed is True
    others = pair(ONE, axes={"way": "b"}) + four(ALMOST, "b") + pair(ONE, axes={"way": "c"}) + four(ALMOST, "c")
    among = steps(block(of_a + others, DECLARED))
    assert among["1x2 a"].claimed is True
    for cell in ("1x4 b", "1x4 c"):
        assert str(among[cell].claimed).endswith("among all rows (Holm)")


def test_a_baseline_that_nothing_may_rest_on_refuses_the_claim_over_it() -> None:
    found = steps(block(pair(ONE[:2], axes={"way": "b"}) + four((6.0, 6.1, 5.9), "b")))
    assert found["1x4 b"].claimed == "n = 2, needs 3 on both sides"
    unlike = {"hardware": "A + B", "heterogeneous": True}
    mixed = steps(block(pair(ONE, **unlike) + pair((6.0, 6.1, 5.9), layout="1x4", processes=4, **unlike)))
    assert mixed["1x4"].claimed == "heterogeneous devices have no baseline"
