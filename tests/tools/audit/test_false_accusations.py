"""Tables whose numbers are right, or stand for something else: none of them is called wrong."""

import pytest

from runner.tools.audit.findings import MEASURED
from tests.tools.audit.test_tables import audited, graded, table, wrong

TIMES = ("1 | 100 | 1.00", "2 | 55 | 1.90", "4 | 30 | 3.48")


@pytest.mark.parametrize(
    ("head", "rows"),
    [
        ("Backend | Time (s) | Speedup", ("NCCL | 100 | 1.0x", "Gloo | 120 | 1.2x slower", "MPI | 80 | 1.25x")),
        ("Version | Time (s) | Speedup", ("a | 100 | 1.0x", "b | 80 | 1.25x faster", "c | 120 | 20% slower")),
        ("Device | Time (s) | vs. GPU", ("GPU | 10 | 1x", "CPU | 150 | 15x slower", "T4 | 5 | 2x")),
        ("Modus | Zeit (s) | Speedup", ("a | 100 | 1,0x", "b | 130 | 1,3x langsamer", "c | 50 | 2,0x")),
        ("后端 | 耗时 (s) | 加速比", ("NCCL | 100 | 1.0", "Gloo | 120 | 1.2倍慢", "MPI | 80 | 1.25")),
    ],
)
def test_what_is_slower_by_a_factor_is_not_taken_as_faster_by_it(head: str, rows: tuple[str, ...]) -> None:
    audit = audited(table(head, *rows))
    assert [finding.wrong for finding in audit.findings] == [False, False]
    assert [number.reason for number in audit.unchecked if number.reason != MEASURED] == ["is not a plain number"]


@pytest.mark.parametrize(
    "heading",
    ["Theoretical speedup", "Expected speedup", "Max speedup", "Linear speedup", "Target speedup", "Simulated speedup"]
    + ["Reported speedup", "Speedup (paper)", "Speedup [12]", "理论加速比", "预期加速比", "Amdahl speedup (p=0.95)"]
    + ["Modelled speedup", "Projected speedup", "Estimated speed-up", "Ideal speed-up", "Speedup (Gustafson)"],
)
def test_a_speed_up_that_was_not_measured_does_not_follow_from_measured_times(heading: str) -> None:
    audit = audited(table(f"N | Time (s) | {heading}", *TIMES))
    assert audit.findings == []
    assert {number.column for number in audit.unchecked if number.reason != MEASURED} == {heading}
    assert [grade for _, grade in graded(table("N | Time (s) | Speedup", *TIMES))][1:] == ["inconsistent"] * 2


@pytest.mark.parametrize("heading", ["Time to accuracy (min)", "Time to 75% acc (min)", "Cost (GPU-min)", "TTA (min)"])
def test_a_column_with_a_unit_of_time_explains_a_speed_up_whatever_else_it_names(heading: str) -> None:
    rows = ["8 | 2.0 | 120 | 1.0", "16 | 1.05 | 65.1 | 1.84", "32 | 0.55 | 36.3 | 3.31"]
    head = f"GPUs | Epoch time (min) | {heading} | Speedup"
    assert [grade for _, grade in graded(table(head, *rows))] == ["consistent"] * 3


def test_a_speed_up_may_be_that_of_times_added_up() -> None:
    rows = ["1 | 100 | 20 | 1.00", "2 | 55 | 10 | 1.85", "4 | 30 | 5 | 3.43"]
    findings = audited(table("GPUs | Train (s) | Eval (s) | Speedup", *rows)).findings[1:]
    assert [finding.grade for finding in findings] == ["consistent"] * 2
    assert [finding.formula for finding in findings] == ["120 / 65", "120 / 35"]


def test_a_change_in_percent_is_not_called_wrong_as_a_difference_of_times() -> None:
    rows = ("a | 6,027ms | 6,033ms | +0.1%", "b | 4,078ms | 4,070ms | -0.9%")
    assert (0.1, "inconsistent") not in wrong(table("Build | Before | After | Delta", *rows))
