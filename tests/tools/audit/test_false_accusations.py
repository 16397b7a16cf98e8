"""Tables whose numbers are right, or stand for something else: none of them is called wrong."""

import pytest

from runner.tools.audit.document import audit_page
from runner.tools.audit.findings import MEASURED
from runner.tools.audit.formats import read_text
from tests.support.projects import Project
from tests.tools.audit.test_tables import graded, table, wrong

MILLIONS = ("2 | 5.916 ms | 1.6905 M", "4 | 3.271 ms | 3.0573 M", "6 | 2.5 ms | 4.0 M", "8 | 1.9 ms | 5.2632 M")
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
    audit = audit_page(read_text(table(head, *rows), "table", "markdown"))
    assert not [one for one in audit.findings if one.wrong]
    assert len(audit.findings) == 2
    assert [one.reason for one in audit.unchecked if one.reason != MEASURED] == ["is not a plain number"]


def test_a_wrong_factor_beside_one_that_is_slower_is_still_found() -> None:
    rows = ("NCCL | 100 | 1.0x", "Gloo | 120 | 1.2x slower", "MPI | 80 | 3.25x")
    assert wrong(table("Backend | Time (s) | Speedup", *rows)) == [(3.25, "inconsistent")]


@pytest.mark.parametrize(
    "heading",
    ["Theoretical speedup", "Expected speedup", "Max speedup", "Linear speedup", "Target speedup", "Simulated speedup"]
    + ["Reported speedup", "Speedup (paper)", "Speedup [12]", "理论加速比", "预期加速比", "Amdahl speedup (p=0.95)"]
    + ["Modelled speedup", "Projected speedup", "Estimated speed-up", "Ideal speed-up", "Speedup (Gustafson)"],
)
def test_a_speed_up_that_was_not_measured_does_not_follow_from_measured_times(heading: str) -> None:
    audit = audit_page(read_text(table(f"N | Time (s) | {heading}", *TIMES), "table", "markdown"))
    assert audit.findings == []
    assert {one.column for one in audit.unchecked if one.reason != MEASURED} == {heading}
    assert [one[1] for one in graded(table("N | Time (s) | Speedup", *TIMES))][1:] == ["inconsistent"] * 2


def test_a_predicted_speed_up_follows_from_predicted_times() -> None:
    head = "GPUs | Measured (s) | Predicted (s) | Predicted speedup"
    rows = ["1 | 100 | 100 | 1.00", "2 | 55 | 52 | 1.92", "4 | 30 | 27 | 3.70"]
    assert [one[1] for one in graded(table(head, *rows))] == ["consistent"] * 3
    assert wrong(table(head, *rows).replace("3.70", "4.90")) == [(4.9, "flips")]


def test_an_efficiency_does_not_follow_from_an_ideal_speed_up_but_one_of_the_ideal_is_checked() -> None:
    rows = ["1 | 1 | 100%", "2 | 2 | 91%", "4 | 4 | 83%"]
    assert graded(table("GPUs | Ideal speedup | Efficiency", *rows)) == []
    rows = ["1 | 100 | 100%", "2 | 55 | 91%", "4 | 30 | 73%"]
    assert wrong(table("GPUs | Time (s) | Efficiency (% of ideal)", *rows)) == [(73, "inconsistent")]


@pytest.mark.parametrize("heading", ["Time to accuracy (min)", "Time to 75% acc (min)", "Cost (GPU-min)", "TTA (min)"])
def test_a_column_with_a_unit_of_time_explains_a_speed_up_whatever_else_it_names(heading: str) -> None:
    rows = ["8 | 2.0 | 120 | 1.0", "16 | 1.05 | 65.1 | 1.84", "32 | 0.55 | 36.3 | 3.31"]
    head = f"GPUs | Epoch time (min) | {heading} | Speedup"
    assert [one[1] for one in graded(table(head, *rows))] == ["consistent"] * 3


def test_a_speed_up_may_be_that_of_times_added_up() -> None:
    rows = ["1 | 100 | 20 | 1.00", "2 | 55 | 10 | 1.85", "4 | 30 | 5 | 3.43"]
    findings = audit_page(read_text(table("GPUs | Train (s) | Eval (s) | Speedup", *rows), "t", "markdown")).findings
    assert [(one.grade, one.formula) for one in findings][1:] == [
        ("consistent", "120 / 65"),
        ("consistent", "120 / 35"),
    ]
    nothing = ["1 | 100 | 0 | 1.00", "2 | 50 | 5 | 1.82", "4 | 25 | 5 | 3.33"]
    assert wrong(table("GPUs | Compute (s) | Communication (s) | Speedup", *nothing)) == []


def test_a_row_that_prints_one_is_no_evidence_against_another() -> None:
    rows = ["1 | 100 | 20 | 1.00", "2 | 55 | 10 | 1.70", "4 | 30 | 5 | 3.10"]
    assert wrong(table("GPUs | Train (s) | Eval (s) | Speedup", *rows)) == []


def test_numbers_of_one_digit_from_which_nearly_everything_follows_confirm_nothing() -> None:
    rows = ["1 | 3 | 1.00", "2 | 2 | 1.6", "4 | 1 | 2.7"]
    assert graded(table("GPUs | Time (s) | Speedup", *rows)) == [(1.0, "consistent")]


def test_a_document_without_a_table_that_is_read_says_so(project: Project) -> None:
    (project.root / "table.txt").write_text("GPUs   Time(s)   Speedup\n1      100.0     1.00\n", "utf-8")
    done = project.runner("audit", "table.txt")
    assert (done.code, done.stdout.splitlines()) == (
        0,
        [
            "table.txt: 0 tables, 0 numbers checked; 0 not",
            "  no table that is read: Markdown, HTML, CSV, or text in a block of code",
        ],
    )


@pytest.mark.parametrize(
    ("head", "rows"),
    [
        (
            "Severity | Baseline | Tuned | Improvement",
            (
                "low | 45 min avg | 8 min avg | 82.2%",
                "mid | 6 hours avg | 1.8 hours avg | 70.0%",
                "high | 2.5 hours avg | 22 min avg | 85.3%",
                "rest | 24 hours avg | 4 hours avg | 83.3%",
            ),
        ),
        ("Queue | Old | New | Improvement", ("a | 9 jobs | 7 jobs | 22%", "b | 8 crates | 40 boxes | 15%")),
        ("Threads | Time | Throughput", ("1 | 11.124 ms | 898.98 Kelem/s", *(row + "elem/s" for row in MILLIONS))),
        ("Threads | Time | Throughput", ("1 | 11.124 ms | 898.98 Kfoo/s", *(row + "foo/s" for row in MILLIONS))),
        (
            "Query | Mean time | Throughput | Speedup",
            ("a | 13.8 us | 72,000/s | 28x", "b | 391 us | 2,500/s | baseline"),
        ),
        ("System | p50 (ms) | req/s", ("a | 210 | 4.7", "b | 85 | 11.7", "c | 62 | 16.1")),
    ],
)
def test_numbers_of_two_units_and_of_percentiles_accuse_none(head: str, rows: tuple[str, ...]) -> None:
    assert [one for one in graded(table(head, *rows)) if one[1] != "consistent"] == []


def test_a_change_in_percent_is_not_called_wrong_as_a_difference_of_times() -> None:
    rows = ("a | 6,027ms | 6,033ms | +0.1%", "b | 4,078ms | 4,070ms | -0.9%")
    assert (0.1, "inconsistent") not in wrong(table("Build | Before | After | Delta", *rows))


def test_every_number_of_a_derived_column_is_counted_although_none_can_be_read() -> None:
    audit = audit_page(read_text(table("Mode | CPU | GPU | Speedup", "a | 45-60s | 5-10s | 5-6x"), "table", "markdown"))
    assert [one.reason for one in audit.unchecked] == ["is not a plain number"]


def test_a_speed_up_beside_a_row_that_prints_baseline_is_checked() -> None:
    rows = ("a | 13.8 us | 14x faster", "b | 391 us | Baseline")
    assert wrong(table("Mode | Time | Speedup", *rows)) == [(14, "inconsistent")]
