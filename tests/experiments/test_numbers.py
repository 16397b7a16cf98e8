"""The table of numbers that do not repeat is made of real trainings, which are compared step by step."""

from dataclasses import replace

import pytest

from bench.numbers.__main__ import CHANGES
from bench.numbers.measure import Change, Curve, compare, train
from bench.numbers.page import BEGIN, DOCUMENT, END, write
from tests.support.fork_server import command

BASE = Curve([2.0, 1.0, 0.5], 0.9, 100, "a" * 64, "2.3.1")


def test_the_first_step_that_differs_and_the_largest_difference_are_found() -> None:
    found = compare(BASE, replace(BASE, losses=[2.0, 1.5, 0.25]))
    assert (found.first, found.first_difference, found.largest, found.at, found.last) == (2, 0.5, 0.5, 2, 0.25)
    same = compare(BASE, BASE)
    assert (same.first, same.largest, same.at) == (None, 0.0, None)


def test_a_row_says_which_levels_hold() -> None:
    cases = [
        (Change("again"), BASE),
        (Change("other | parameters"), replace(BASE, parameters="b" * 64)),
        (Change("worse"), replace(BASE, losses=[2.0, 1.0, 0.75], accuracy=0.5)),
    ]
    document = write(f"before\n{BEGIN}old\n{END}after\n", BASE, cases, 1, "a CPU")
    assert document.startswith(f"before\n{BEGIN}The base: ")
    assert document.endswith(f"|\n{END}after\n")
    rows = [line for line in document.splitlines() if line.startswith("| ")][1:]
    assert [row.rpartition(" | ")[2] for row in rows] == ["2, 3 |", "3 |", "none |"]
    assert rows[0] == "| again | none | 0 | 0 | none | 0 | 90 | 2, 3 |"
    assert rows[1].startswith(r"| other \| parameters | none |")


@pytest.mark.slow
def test_a_change_is_seen_and_two_processes_differ_by_rounding() -> None:
    python = command("python")
    base = train(Change("the base", python=python), 1)
    assert len(base.losses) == 12
    changed = train(Change("contiguous", how="contiguous", python=python), 1)
    assert changed.parameters != base.parameters
    assert compare(base, changed).first in (1, 2, 3)
    two = train(Change("two", processes=2, python=python), 1)
    assert compare(base, two).largest < 1e-4


def test_the_table_of_the_document_has_a_row_for_each_change() -> None:
    table = DOCUMENT.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines() if line.startswith("| ")]
    assert [change.name for change in CHANGES] == rows[1 : len(CHANGES) + 1]
    assert "| nothing: the same run again | none | 0 | 0 | none | 0 |" in table
