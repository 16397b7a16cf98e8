"""The error rates of the audit, on tables made by chance: what it accuses falsely, and what it misses."""

from tests.tools.audit.generated import make, markdown, spoil
from tests.tools.audit.test_tables import audited

TABLES = 250


def test_of_consistent_tables_at_most_1_percent_are_accused_and_nearly_all_are_checked() -> None:
    accused = empty = 0
    for seed in range(TABLES):
        findings = audited(markdown(make(seed))).findings
        accused += any(finding.wrong for finding in findings)
        empty += not findings
    assert accused <= 0.01 * TABLES
    assert empty <= 0.1 * TABLES


def test_of_tables_with_one_error_at_least_95_percent_are_found_at_the_cell() -> None:
    found = tables = others = 0
    for seed in range(TABLES):
        made = make(seed)
        before = [list(row) for row in made.rows]
        cell = spoil(made, seed)
        if cell is None:
            continue
        tables += 1
        findings = audited(markdown(made)).findings
        wrong = {(finding.row - 1, finding.column) for finding in findings if finding.wrong}
        found += (cell[0], made.headings[cell[1]]) in wrong
        changed = sum(
            old != new for was, now in zip(before, made.rows, strict=True) for old, new in zip(was, now, strict=True)
        )
        others += len(wrong) > changed
    assert tables > 0.8 * TABLES
    assert found >= 0.95 * tables
    assert others <= 0.02 * tables
