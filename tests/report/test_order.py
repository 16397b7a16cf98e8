"""Which orders of runs show a difference: how often something that changes in time is taken for one, simulated."""

import math
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest
from scipy import stats

from runner.records.record_facts import moment_of
from runner.records.schema import Outcome, Record
from runner.report.notes import notes
from runner.report.order import NOT_IN_TURN, NOT_KNOWN, widening
from runner.report.run_summary import RunSummary
from runner.report.statistics import welch
from runner.report.two_sides import NOT_COMPARABLE, judge
from tests.support.records import Make
from tests.support.summaries import base, block, pair, row, run

SERIES = 10_000
MOST_FALSE = 0.05 + 3 * math.sqrt(0.05 * 0.95 / SERIES)
"""5% and three standard errors of a share that was counted in 10,000 series."""
CONDITIONS = {"steady": (0.0, 0.0), "drift": (0.08, 0.0), "alike": (0.0, 0.5), "both": (0.08, 0.5)}
"""Of a series: how much slower the machine gets, and the correlation between the noise of two neighbouring runs."""


@cache
def series(runs: int, condition: str) -> Any:
    """The logarithms of the times of runs that all do the same, one series a line."""
    drift, alike = CONDITIONS[condition]
    noise = np.random.default_rng(runs).standard_normal((SERIES, runs))
    for place in range(1, runs):
        noise[:, place] = alike * noise[:, place - 1] + math.sqrt(1 - alike**2) * noise[:, place]
    return 0.02 * noise + np.log1p(drift * np.arange(runs) / (runs - 1))


def in_turn(one_round: str, repeats: int) -> str:
    """Repeat a round forwards and backwards in turn."""
    return "".join(one_round if number % 2 == 0 else one_round[::-1] for number in range(repeats))


def places(order: str) -> tuple[list[int], list[int]]:
    a, b = ([place for place, name in enumerate(order) if name == side] for side in "AB")
    return a, b


def share_of_false_claims(order: str, condition: str, *, pairs: bool = False) -> float:
    """The share of the series of which `Difference.p` would be less than 5%."""
    a, b = places(order)
    logs = series(len(order), condition)
    if pairs:
        found = stats.ttest_1samp(logs[:, a] - logs[:, b], 0, axis=1)
    else:
        found = stats.ttest_ind(logs[:, a], logs[:, b], axis=1, equal_var=False)
    p = 2 * stats.t.sf(np.abs(found.statistic) / widening(a, b, paired=pairs), found.df)
    return float(np.mean(p < 0.05))


# The first and the last cell of a plan of several, and the first cell of a comparison of several.
ORDERS = [in_turn("A" + "." * others + "B", n) for others in (0, 1, 4) for n in (3, 5, 10)]
ORDERS += ["AB" * 3, "AB" * 10, "AABB" * 2, "AAAAABBBBB" * 2, "ABBAABBBB"]
PAIRS = [in_turn("AB" + ".." * others, n) for others in (0, 2) for n in (3, 5, 10)]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_of_runs_or_pairs_made_in_turn_one_false_claim_in_twenty_at_most_is_made(condition: str) -> None:
    for pairs, orders in ((False, ORDERS), (True, PAIRS)):
        for order in orders:
            assert share_of_false_claims(order, condition, pairs=pairs) <= MOST_FALSE, order


def made(order: str) -> list[RunSummary]:
    """Runs of one process (A) and of two (B), which are faster, one after the other in this order."""
    runs = base([10.0 + 0.01 * n for n in range(order.count("A"))])
    runs += pair([6.0 + 0.01 * n for n in range(order.count("B"))])
    moments = [100.0 * place for side in places(order) for place in side]
    return [msgspec.structs.replace(each, began=at) for each, at in zip(runs, moments, strict=True)]


@pytest.mark.parametrize(
    ("orders", "claimed"),
    [
        (("ABBAAB", "AABBAABB", "AAABBBAAABBB", "AAABBBABBAAB"), "True"),
        (("AAABBB", "BBBBAAA", "AAAAABABBBBB"), f"{NOT_IN_TURN}; shown by: runner run tiny --layout 1x1 --layout 1x2"),
    ],
)
def test_runs_made_in_turn_are_claimed_and_a_cell_after_the_other_is_refused(orders: Any, claimed: str) -> None:
    assert all(str(row(made(order)).claimed).startswith(claimed) for order in orders)


def test_an_order_that_says_less_widens_the_interval_and_is_noted() -> None:
    found = row(made("AAABBBAAABBB"))
    plain = welch(*([each.seconds for each in side.complete] for side in (found.baseline, found)))
    assert found.difference.half_width() == pytest.approx(1.22 * plain.half_width(), rel=0.01)
    assert "interval widened by the order of the runs: 1x2: x 1.22" in notes(block(made("AAABBBAAABBB")))


def test_a_record_without_its_start_shows_nothing() -> None:
    runs = made("ABBAAB")
    runs[0] = msgspec.structs.replace(runs[0], began=None)
    assert str(row(runs).claimed).startswith(f"{NOT_KNOWN}; shown by: ")


def test_jobs_side_by_side_on_several_machines_are_in_no_order_and_on_one_machine_in_each_other_s_way() -> None:
    apart = [
        msgspec.structs.replace(each, began=float(n), machines=[(f"m{n}", "")]) for n, each in enumerate(made("AAABBB"))
    ]
    assert row(apart).claimed is True
    together = [msgspec.structs.replace(each, machines=[("m", "")]) for each in apart]
    assert f"at the same time: {apart[0].path} and {apart[1].path}; shown by: " in str(row(together).claimed)


def test_two_folders_whose_runs_were_not_made_in_turn_are_left_open() -> None:
    a, b = ([run(10.0 + at / 1e4, began=float(at)) for at in moments] for moments in ((0, 100, 200), (300, 400, 500)))
    (found,) = judge(a, b, 0.05)
    command = "runner compare COMMIT COMMIT --experiment tiny --layout 1x1 --repeat 3"
    assert (found.verdict, found.why) == (NOT_COMPARABLE, f"{NOT_IN_TURN}; shown by: {command}")


def test_a_run_began_when_its_processes_did_which_may_have_waited_in_a_queue(make: Make) -> None:
    record = Record(launch=make.launch(started="2026-11-21T00:00:00+00:00"), status="completed")
    assert moment_of(record) == 1795219200
    record.outcome = Outcome(ended="2026-11-21T01:00:00.500+00:00", wall_seconds=3600.0, exits=[])
    record.metrics = {"total_seconds": 60.0}
    assert moment_of(record) == 1795219200 + 3540.5
    record.outcome.wall_seconds = 10.0  # whose clock does not agree with the other
    assert moment_of(record) == 1795219200
