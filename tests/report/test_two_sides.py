"""Two versions -> verdicts: how often they err, on simulated times, and what may not be compared."""

from typing import Any

import pytest
from msgspec.structs import replace

from runner.report.order import NO_SPREAD
from runner.report.run_summary import RunSummary
from runner.report.two_sides import (
    FASTER,
    NOT_COMPARABLE,
    SAME,
    SLOWER,
    Verdict,
    exit_code,
    judge,
    to_notes,
    to_rows,
)
from tests.support.summaries import SAME as PROVENANCE
from tests.support.summaries import run

DETECT = 0.05


def side(name: str, seconds: list[float], *, made: bool = True, **changes: Any) -> list[RunSummary]:
    """Runs of one side, made in turn with the other, AB BA ...; those that were made for a comparison say so."""
    label = {"side": ("c1", name, f"version {name}")} if made else {}
    nodes, processes = map(int, changes.get("layout", "1x1").split("x"))
    found = []
    for number, value in enumerate(seconds, 1):
        second = (name == "B") == bool(number % 2)
        began = 2000.0 * number + 1000 * second + 100 * nodes + 20 * processes
        found.append(run(value, repeat=number, **{**label, "began": began, **changes}))
    return found


def verdict_of(a: list[RunSummary], b: list[RunSummary], detect: float = DETECT) -> Verdict:
    (verdict,) = judge(a, b, detect)
    return verdict


def of_times(a: list[float], b: list[float], detect: float = DETECT, *, made: bool = True, **changes: Any) -> Verdict:
    return verdict_of(side("A", a, made=made), side("B", b, made=made, **changes), detect)


STEADY = [10.0, 10.05, 9.95, 10.02]
SLOW = [value * factor for value, factor in zip(STEADY, (1.2, 1.21, 1.19, 1.2), strict=True)]


def test_the_verdicts_of_several_cells_hold_together() -> None:
    times = ("A", [10.0, 10.1, 9.9]), ("B", [9.62, 9.75, 9.84])  # p is 0.03
    for layouts, verdict in ((["1x1"], FASTER), (["1x1", "1x2", "1x4"], SAME)):
        a, b = ([run for at in layouts for run in side(*one, made=False, layout=at)] for one in times)
        assert {found.verdict for found in judge(a, b, DETECT)} == {verdict}


SAME_TIMES = [10.0, 10.001, 9.999, 10.0]
SLIGHTLY = [value * 1.005 for value in SAME_TIMES]
VERDICTS = {
    "slower": (STEADY, SLOW, True, SLOWER, "None", 1),
    "faster": (SLOW, STEADY, True, FASTER, "None", 0),
    "the same": (STEADY, STEADY[::-1], True, SAME, "None", 0),
    "slower, by less than asked for": (SAME_TIMES, SLIGHTLY, False, SLOWER, "None", 0),
    "too wide": ([9.0, 10.0, 11.0], [11.0, 9.0, 10.0], True, SAME, "difference of 5%", 4),
    "two repeats": (STEADY[:2], SLOW[:2], True, SAME, "n = 2", 4),
    "one repeat": (STEADY[:1], SLOW[:1], True, SAME, "n = 1", 4),
    "rounded and equal": ([10.0] * 3, [10.0] * 3, True, NOT_COMPARABLE, NO_SPREAD, 4),
    "one side rounded": ([10.0] * 3, [9.01, 9.0, 8.99], False, NOT_COMPARABLE, NO_SPREAD, 4),
}


@pytest.mark.parametrize(("a", "b", "made", "verdict", "why", "code"), VERDICTS.values(), ids=VERDICTS)
def test_each_verdict_has_its_reason_and_its_exit_code(
    a: list[float], b: list[float], made: bool, verdict: str, why: str, code: int
) -> None:
    found = of_times(a, b, made=made)
    assert (found.verdict, exit_code([found])) == (verdict, code)
    assert why in str(found.why)
    assert found.decided is (found.why is None)
    notes = to_notes([found], DETECT)
    assert ("by less than 5%" in str(notes)) == (b is SLIGHTLY)
    assert ("--repeat" in str(notes)) == (len(a) > 1 and why != NO_SPREAD)
    assert exit_code([found, of_times(STEADY, SLOW)]) == 1


def test_whether_no_difference_is_enough_depends_on_the_difference_that_was_asked_for() -> None:
    assert of_times(STEADY, STEADY[::-1]).proposed < 10
    strict = of_times(STEADY, STEADY[::-1], 0.001)
    assert not strict.decided
    assert strict.proposed > 100
    assert exit_code([of_times(SAME_TIMES, SLIGHTLY, 0.005, made=False)]) == 1


def test_runs_made_in_turn_are_compared_in_pairs_and_others_are_not() -> None:
    drifting = [10.0, 11.0, 12.0, 13.0]
    slower = [value * 1.02 * (1 + (-1) ** number * 1e-3) for number, value in enumerate(drifting)]
    assert of_times(drifting, slower).verdict == SLOWER
    assert of_times(drifting, slower, made=False).verdict == SAME
    assert of_times(drifting, slower, side=("c2", "B", "version B")).verdict == SAME  # of another comparison


def changed(name: str, **changes: Any) -> list[RunSummary]:
    return side(name, STEADY, made=False, **changes)


REFUSED = {
    "another argument": ({"args": {"epochs": 2}}, "epochs differs: 1 and 2"),
    "a disturbance": ({"disturbed": ["swapped"]}, "disturbed: swapped during 1x1 repeat 1"),
    "a doubt": ({"doubts": ["backwards"]}, "doubtful: backwards"),
    "a failure": ({"status": "failed"}, "4 of 4 runs of B not complete"),
    "other data": ({"same": {**PROVENANCE, "data": "e"}}, "data differs: d and e"),
    "less work": ({"trained_samples": 900}, "trained samples differs: 1,000 and 900"),
    "another machine": ({"machines": [("n", "there")]}, "B on there (n), A on here (m)"),
    "another accuracy": ({"accuracy": 0.5}, "accuracy differs: 50.00% against 95.00%"),
}


@pytest.mark.parametrize(("changes", "why"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_like_the_other_is_not_comparable(changes: Any, why: str) -> None:
    found = verdict_of(changed("A"), changed("B", **changes))
    assert (found.verdict, exit_code([found])) == (NOT_COMPARABLE, 4)
    assert why in found.why
    assert to_notes([found], DETECT)[0] == f"1x1: {found.why}"


def test_runs_of_one_side_that_are_not_of_one_version_are_not_compared() -> None:
    mixed = changed("B")[:-1] + changed("B", same={**PROVENANCE, "code": "x"})[-1:]
    assert verdict_of(changed("A"), mixed).why == "within B: code differs: c and x"


def test_versions_may_differ_in_what_makes_them_versions_and_sides_made_together_in_their_arguments() -> None:
    other = {**PROVENANCE, "code": "x", "torch": "2.4"}
    found = verdict_of(changed("A"), changed("B", args={"epochs": 1.0}, same=other))
    assert (found.verdict, found.differs) == (SAME, ("code differs: c and x", "torch differs: 2.3.1 and 2.4"))
    assert "between A and B: torch differs: 2.3.1 and 2.4" in to_notes([found], DETECT)
    found = of_times(STEADY, SLOW, args={"epochs": 1, "workers": 2})
    assert (found.verdict, found.differs) == (SLOWER, ("workers differs: none and 2",))
    assert of_times(STEADY, SLOW, trained_samples=500).verdict == NOT_COMPARABLE


def test_what_disturbs_both_sides_alike_is_noted_and_does_not_refuse() -> None:
    found = of_times(STEADY, SLOW, disturbed=["others"])
    assert found.verdict == SLOWER
    assert "1x1: B: 4 of 4 runs disturbed, " in str(to_notes([found], DETECT))


def test_a_cell_that_one_side_lacks_is_named_and_open_only_if_b_lost_it() -> None:
    more = side("A", STEADY, layout="1x2", processes=2)
    a, b = side("A", STEADY), side("B", STEADY[::-1])
    lost = judge(a + more, b, DETECT)
    assert [(found.name, found.why) for found in lost] == [("1x1", None), ("1x2", "only in A")]
    new = judge(b, a + more, DETECT)
    assert [found.why for found in new] == [None, "only in B"]
    assert (exit_code(lost), exit_code(new)) == (4, 0)


def test_runs_that_lie_on_both_sides_count_for_neither() -> None:
    old, new = ([replace(run, id=run.path) for run in changed(name)] for name in "AB")
    found = verdict_of(old + new[:1], new)
    assert (found.a.runs, found.b.runs, found.on_both) == (tuple(old), tuple(new[1:]), 1)
    same = verdict_of(old, old)
    assert (same.a, same.b, same.on_both, exit_code([same])) == (None, None, 4, 4)
    for one in (found, same):
        assert "on both sides" in str(to_notes([one], DETECT))


def test_several_experiments_are_matched_by_their_names_and_one_by_its_cells() -> None:
    both = [*changed("A"), *changed("A", experiment="other")]
    assert [found.name for found in judge(both, both, DETECT)] == ["other 1x1", "tiny 1x1"]
    assert [found.name for found in judge(changed("A"), changed("B", experiment="other"), DETECT)] == ["1x1"]


def test_rows_have_a_column_for_each_side_and_the_ratio() -> None:
    head, row = to_rows([of_times(STEADY, SLOW)])
    assert head == ("cell", "n", "A train seconds [95%]", "B train seconds [95%]", "B / A [95%]", "verdict")
    assert (row[:2], row[4][:7], row[5]) == (("1x1", "4"), "1.200 [", "slower")
