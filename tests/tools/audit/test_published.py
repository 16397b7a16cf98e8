"""The audit of the published figures: it finds what the documents got wrong, and nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest

from runner.tools.audit.document import audit_file
from runner.tools.audit.findings import Audit
from tests.tools.audit.test_tables import audited

ROOT = Path(__file__).resolve().parents[3]
# Figures of rtx3090-backends: time, printed speed-up; what its own one-process time gives, and the grade.
BACKENDS = [
    (1, "NCCL", "200.97s", "1.00", 1.00, "consistent"),
    (2, "NCCL", "117.07s", "1.67", 1.7167, "inconsistent"),
    (4, "NCCL", "170.21s", "2.22", 1.1807, "inconsistent"),
    (8, "NCCL", "228.03s", "2.86", 0.8813, "flips"),
    (8, "Gloo", "126.65s", "0.83", 1.5868, "flips"),
]
CONTINUED = [(2, "Gloo", "128.20s", "1.25", 1.5676, "inconsistent"), (1, "Gloo", "331.55s", "1.25", 0.6062, "flips")]
BACKENDS_WRONG = [(1.67, "inconsistent"), (2.22, "inconsistent"), (2.86, "flips"), (1.25, "flips")]
BACKENDS_WRONG += [(1.25, "inconsistent"), (0.83, "flips")]
A100 = """# Training

## BERT, one card

Total time: 559.67 s, acc: 88.1912%.

### Two cards

On 2 张 A100: 耗时: 324.2秒，速度提高了1.7倍左右。acc: 98.6891%

On 2 张 V100: 耗时: 396.78秒，速度提高了1.4倍左右。

### Two nodes, 2 张 A100

Total time: 777.38 s.

## MNIST

### A100

耗时：170.24秒。

### V100

耗时：182秒

### 2 A100

耗时: 103 秒，比单卡快了 1.7 倍。

### 2 V100

耗时: 124 秒，比单卡快了 1.4 倍。

### A100 + T4

耗时: 48 秒，比单卡快了 3.5 倍。

### A100 + V100

耗时: 66 秒，比单卡快了 2.5 倍。
"""


def wrong(audit: Audit) -> list[tuple[float, str]]:
    return [(finding.printed, finding.grade) for finding in audit.findings if finding.wrong]


def tabbed(rows: list[tuple[int, str, str, str, float, str]]) -> str:
    return "\n".join(f"1\t{backend}\t{count}\t{time}\t{speed}\t99.4%" for count, backend, time, speed, _, _ in rows)


def test_a_table_apart_by_tabs_and_its_continuation_are_computed_from_the_row_that_prints_one() -> None:
    head = "设备数量\t通信后端\t单机 GPU 数量\t耗时\t加速比\tTest Accuracy\n"
    found = audited(f"# 表格\n\n{head}{tabbed(BACKENDS)}\n\n{head}{tabbed(CONTINUED)}\n").findings
    assert [finding.grade for finding in found] == [row[-1] for row in BACKENDS + CONTINUED]
    expected = [row[-2] for row in BACKENDS + CONTINUED]
    assert [finding.computed for finding in found] == pytest.approx(expected, abs=1e-4)
    assert [finding.line for finding in found] == [4, 5, 6, 7, 8, 11, 12]
    assert {finding.column for finding in found} == {"加速比"}


def test_running_text_is_consistent_but_for_the_accuracy_that_counts_a_sample_twice() -> None:
    audit = audited(A100)
    consistent = dict.fromkeys((88.1912, 1.7, 1.4, 3.5), "consistent")
    grades = {finding.printed: finding.grade for finding in audit.findings}
    assert grades == {**consistent, 98.6891: "inconsistent", 2.5: "truncated"}
    (accuracy,) = [finding for finding in audit.findings if finding.wrong]
    assert "1054 / 1068" in accuracy.note
    notes = [finding.note for finding in audit.findings if finding.note and not finding.wrong]
    assert any("A100" in note and "other hardware" in note for note in notes)
    assert any("777.38" in reason and "0.72" in reason for reason in map(str, audit.unchecked))


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ("mnist/mnist", []),
        ("mnist/mnist-cpu", []),
        ("bert/bert", [(0.986891, "inconsistent")]),
        ("bert/bert-leak", [(0.986891, "inconsistent")]),
        ("mnist/mnist-backends", BACKENDS_WRONG),
    ],
)
def test_published_figures_of_a_definition_are_audited_at_their_lines(definition: str, expected: list[object]) -> None:
    path = ROOT / "experiments" / f"{definition}.yaml"
    audit = audit_file(path)
    assert wrong(audit) == expected
    lines = path.read_text("utf-8").splitlines()
    assert all(f"{finding.printed:g}" in lines[finding.line - 1] for finding in audit.findings)


def test_the_documents_of_the_project_contradict_themselves_nowhere() -> None:
    paths = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("*/README.md")]
    checked = 0
    for path in paths:
        audit = audit_file(path)
        assert wrong(audit) == [], path
        checked += len(audit.findings)
    assert len(paths) > 10
    assert checked > 10


def test_the_example_of_the_documentation_prints_what_it_shows(project: Any) -> None:
    text = (ROOT / "docs" / "audit.md").read_text("utf-8")
    table, printed = (text.partition(f"```{kind}\n")[2].partition("```")[0] for kind in ("csv", "text"))
    (project.root / "scaling.csv").write_text(table, "utf-8")
    done = project.runner("audit", "scaling.csv")
    assert (done.code, done.stdout) == (1, printed)
    rows = json.loads(project.runner("audit", "scaling.csv", "--json").stdout)
    grades = [row["grade"] for row in rows if row["column"] == "speed-up"]
    assert grades == ["consistent", "truncated", "inconsistent", "flips"]
    names = {"line", "column", "printed", "computed", "grade", "file", "row", "formula", "interval"}
    assert all(names <= row.keys() for row in rows)
