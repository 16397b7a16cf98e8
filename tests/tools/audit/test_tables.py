"""What the audit reads and what it concludes, on small tables of every form."""

import pytest

from runner.tools.audit.document import audit_page
from runner.tools.audit.findings import Audit
from runner.tools.audit.formats import FORMATS, guess
from runner.tools.audit.quantities import devices, read_cell
from runner.tools.audit.roles import Role, role_of


def audited(text: str, format_: str = "markdown") -> Audit:
    return audit_page(FORMATS[format_](text, "table"))


def graded(text: str) -> list[tuple[float, str]]:
    return [(finding.printed, finding.grade) for finding in audited(text).findings]


def wrong(text: str, format_: str = "markdown") -> list[tuple[float, str]]:
    return [(finding.printed, finding.grade) for finding in audited(text, format_).findings if finding.wrong]


def table(head: str, *rows: str) -> str:
    width = head.count("|") + 1
    return "\n".join(f"| {row} |" for row in (head, "|".join(["---"] * width), *rows)) + "\n"


@pytest.mark.parametrize(
    ("cell", "value", "step", "kind"),
    [
        ("200.97s", 200.97, 0.01, "time"),
        ("**1.65x**", 1.65, 0.01, "factor"),
        ("×1.65", 1.65, 0.01, "factor"),
        ("98.69 %", 98.69, 0.01, "percent"),
        ("1,234 img/s", 1234, 1, "rate"),
        ("12.3k tokens/s", 12_300, 100, "rate"),
        ("1:02:03", 3723, 1, "time"),
        ("1h 23m", 4980, 60, "time"),
        ("3分20秒", 200, 1, "time"),
        ("0.5 s/epoch", 0.5, 0.1, "time"),
        ("1.68 [1.41, 2.01]", 1.68, 0.01, ""),
        ("170.2 ± 1.3 s", 170.2, 0.1, "time"),
        ("1.65¹", 1.65, 0.01, ""),
        ("1.65[^2]", 1.65, 0.01, ""),
        ("1.00 (baseline)", 1, 0.01, ""),
        ("１．６５倍", 1.65, 0.01, "factor"),
    ],
)
def test_a_cell_is_a_number_with_its_unit_and_its_rounding(cell: str, value: float, step: float, kind: str) -> None:
    quantity, _ = read_cell(cell)
    assert quantity
    assert (quantity.value, quantity.step, quantity.kind) == (pytest.approx(value), pytest.approx(step), kind)


def test_what_is_no_single_number_is_none() -> None:
    for cell in ("", "-", "N/A", "OOM", "2x A100", "1.12.0+cu113", "ResNet50", "1-8", ">3", "v2", "1e999"):
        assert read_cell(cell)[0] is None, cell


@pytest.mark.parametrize(
    ("cell", "count"),
    [("4", 4), ("2x A100", 2), ("8 x V100", 8), ("A100 x 8", 8), ("2x4", 8), ("1机8卡", 8), ("2x A100 + 3x T4", 5)]
    + [("single GPU", 1), ("A100", None), ("RTX 3090", None), ("NCCL", None)],
)
def test_counts_of_devices_are_read_from_words(cell: str, count: float | None) -> None:
    assert devices(cell) == count


HEADINGS = {
    Role.TIME: "耗时; sec/epoch; T(p), s; s",
    Role.RATE: "img/s",
    Role.SPEEDUP: "加速比; S",
    Role.EFFICIENCY: "扩展效率",
    Role.COUNT: "world size",
    Role.ACCURACY: "准确率",
    Role.CHANGE: "% faster",
    Role.OTHER: "GPU memory; Loss after 2 hours; Std (s); Peak GPU memory (GB); F1; lr; Cost; 95% CI (s)",
    Role.UNKNOWN: "Backend",
}


@pytest.mark.parametrize(("role", "headings"), HEADINGS.items())
def test_headings_say_what_a_column_holds(role: Role, headings: str) -> None:
    assert [role_of(heading) for heading in headings.split("; ")] == [role] * len(headings.split("; "))


def test_percent_faster_by_throughput_and_by_time_are_told_apart() -> None:
    head = "System | Time | Faster"
    by_rate = table(head, "A | 100 s | -", "B | 59.1 s | 69%", "C | 71 s | 41%", "D | 80 s | 25%")
    by_time = table(head, "A | 100 s | -", "B | 59.1 s | 41%", "C | 71 s | 29%", "D | 80 s | 20%")
    assert wrong(by_rate) == wrong(by_time) == []
    mixed = by_rate.replace("41%", "29%")
    (finding,) = [finding for finding in audited(mixed).findings if finding.wrong]
    assert (finding.printed, round(finding.computed), finding.note) == (29, 41, "faster by throughput")
    assert "less time, not more throughput" in {finding.note for finding in audited(by_time).findings}


def test_groups_have_baselines_of_their_own_also_in_merged_and_missing_cells() -> None:
    text = """<h2>Results</h2>
<table><thead><tr><th>GPU</th><th>Count</th><th>time (s)</th><th>speed-up</th></tr></thead>
<tr><td rowspan=3><b>A100</b></td><td>1</td><td>100</td><td>1.00</td></tr>
<tr><td>2</td><td>52</td><td>1.92</td></tr>
<tr><td>4</td><td>n/a</td><td>3.50</td></tr>
<tr><td rowspan="2">V100</td><td>1</td><td>180</td><td>1.00</td></tr>
<tr><td>2</td><td>92</td><td>{}</td></tr></table>"""
    assert wrong(text.format("1.96"), "html") == []
    assert wrong(text.format("1.23"), "html") == [(1.23, "inconsistent")]


def test_decimal_commas_and_thousands_are_told_apart() -> None:
    german = "GPUs;Zeit (s);Speedup\n1;1.203,50;1,00\n2;650,20;1,85\n4;341,00;3,53\n"
    assert wrong(german, "csv") == []
    assert wrong(german.replace("1,85", "2,85"), "csv") == [(2.85, "flips")]
    assert wrong('GPUs,img/s,speedup\n1,"1,203",1.00\n2,"2,302",1.91\n4,"4,499",3.74\n', "csv") == []


def test_an_accuracy_is_a_whole_number_of_the_samples_that_are_said() -> None:
    assert wrong("It is 98.7% (1053 of 1067), and 99.1% (1053 of 1067).") == [(99.1, "inconsistent")]
    assert graded("On one card acc: 88.1912%.\n\nOn 2 GPUs acc: 150.0000%.\n") == []  # no samples counted twice
    text = table("N | correct | accuracy", "2000000 | 1234567 | 61.7284%", "1000 | 941 | 94.1%")
    assert [finding.formula for finding in audited(text).findings] == ["1234567 / 2000000", "941 / 1000"]


def test_a_claim_between_two_times_of_a_sentence_is_checked() -> None:
    assert wrong("Training went from 170 s to 103 s, a 1.65x speedup.") == []
    assert wrong("Training went from 170 s to 103 s, a 2.65x speedup.") == [(2.65, "inconsistent")]
    assert graded("It waits 5 s at most; the new version is 3x faster.") == []


@pytest.mark.parametrize(
    ("text", "format_"),
    [("<p>x</p><table></table>", "html"), ("# A\n\n| a |\n|---|\n", "markdown"), ("a,b\n1,2\n", "csv")]
    + [("name: x\npublished:\n", "yaml"), ("just words", "markdown")],
)
def test_the_format_of_standard_input_is_guessed(text: str, format_: str) -> None:
    assert guess(text) == format_
