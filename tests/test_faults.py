"""docs/failures.md has a row for each fault that the tests inject, and no other."""

import json
import os
import sys
from pathlib import Path

from bench.faults import BEGIN, END, make_rows, read_rows, write
from tests.support.projects import ROOT, complete

DOCUMENT = (ROOT / "docs" / "failures.md").read_text("utf-8")


def test_the_table_has_a_row_for_each_fault_of_the_tests_and_no_other(tmp_path: Path) -> None:
    files = [str(path) for path in (ROOT / "tests").rglob("test_*.py") if "mark.fault" in path.read_text("utf-8")]
    found = tmp_path / "found.json"
    words = [sys.executable, "-m", "pytest", "--collect-only", "-qq", "-p", "no:cacheprovider"]
    environment = {**os.environ, "KIT_FAULTS_LIST": str(found), "KIT_REQUIRE": ""}
    done = complete([*words, *files], ROOT, environment)
    assert done.code == 0, done.stdout + done.stderr
    tested = {tuple(row) for row in json.loads(found.read_text("utf-8"))}
    assert len(tested) > 20
    assert tested == set(read_rows(DOCUMENT)), "make faults writes the table again"


def test_the_table_adds_up_the_tries_and_keeps_other_rows() -> None:
    tries = [
        {"fault": "b", "target": "local", "passed": True, "lost": 0, "told_seconds": 1.26},
        {"fault": "a", "target": "local", "passed": True, "lost": None, "told_seconds": None},
        {"fault": "b", "target": "compose", "passed": False, "lost": 3, "told_seconds": None},
    ]
    before = f"words\n\n{BEGIN}| head |\n|---|\n| a | compose | 7 | nothing |  |\n{END}more\n"
    document = write(before, {**read_rows(before), **make_rows(tries)})
    table = document.partition(BEGIN)[2].partition(END)[0]
    assert table.splitlines()[2:] == [
        "| a | local | 1 |  |  |",
        "| a | compose | 7 | nothing |  |",
        "| b | local | 1 | nothing | 1.3 s |",
        "| b | compose | 1, 1 failed | 3 lines |  |",
    ]
    assert document.startswith("words\n\n")
    assert document.endswith("more\n")


def test_no_try_of_the_table_failed_and_nothing_was_lost() -> None:
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in read_rows(DOCUMENT).values()]
    assert all(tried.isdecimal() for _, _, tried, _, _ in rows)
    assert {lost for _, _, _, lost, _ in rows} <= {"nothing", ""}
    assert all(float(told.split()[0]) <= (20 if target == "ssh" else 15) for _, target, *_, told in rows if told)
