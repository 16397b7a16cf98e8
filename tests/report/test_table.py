"""The table on a terminal: it fits, and what it leaves out is named."""

from collections.abc import Callable

import pytest
from rich.cells import cell_len

from runner.cli.terminal import print_table
from runner.report.table import Grid, Table, fit, to_table
from tests.support.summaries import base, block, pair

Lines = Callable[[Table, int], list[str]]


@pytest.fixture
def lines_of(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Lines:
    def printed(table: Table, columns: int) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(columns))
        print_table(table)
        return capsys.readouterr().out.split("\n")

    return printed


def test_work_that_grows_with_the_processes_is_not_said_to_be_the_same_in_all_rows() -> None:
    more = pair(scaling="weak", trained_samples=2_000, global_batch_size=200, torch="2.4.0")
    common = to_table(block(base(scaling="weak") + more)).common
    assert common[0].endswith(
        "weak scaling; global batch 100, 200; 1,000 or 2,000 samples trained in 10 steps; torch 2.3.1, 2.4.0"
    )


def test_columns_that_do_not_fit_are_named(lines_of: Lines) -> None:
    table = Table("t", ["layout", "serial", "MFU", "claimed"], [["1x1", "1%", "4%", "yes"], ["1x2", "2%", "3%", "no"]])
    printed = lines_of(table, 24)
    assert max(map(cell_len, printed[:4])) <= 24
    for left_out in fit(table, 24).left_out or "?":
        assert left_out in "".join(printed)


def test_a_column_with_one_value_is_said_once_before_another_is_left_out() -> None:
    lines = [["1x1", "3", "41%", "98%", "the baseline"], ["1x2", "3", "31%", "98%", "yes"]]
    grid = Grid("", ["layout", "n", "MFU", "accuracy", "claimed"], lines)
    assert fit(grid, 40).equal == ()
    fitted = fit(grid, 30)
    assert (fitted.equal, fitted.left_out) == (("n 3", "accuracy 98%"), ())
    assert fitted.lines == [["1x1", "41%", "the baseline"], ["1x2", "31%", "yes"]]


def test_a_long_reason_becomes_a_footnote_and_equal_reasons_share_one() -> None:
    reason = "no one-process run on the same hardware to compare with"
    lines = [["1x1", "the baseline"], ["1x2", "yes"], ["1x4", reason], ["1x8", reason], ["2x8", f"{reason}, either"]]
    grid = Grid("", ["layout", "claimed"], lines)
    assert [cells[-1] for cells in fit(grid, 100).lines] == [line[-1] for line in lines]
    fitted = fit(grid, 40)
    assert [cells[-1] for cells in fitted.lines] == ["the baseline", "yes", "no (1)", "no (1)", "no (2)"]
    assert fitted.footnotes == (f"(1) {reason}", f"(2) {reason}, either")


def test_wide_letters_count_as_wide_and_a_table_that_cannot_fit_is_folded_without_a_loss(lines_of: Lines) -> None:
    letters = "分散学習" * 12
    table = Table("t", ["layout", "claimed"], [["1x1", letters]])
    printed = lines_of(table, 60)
    assert max(map(cell_len, printed)) <= 60
    assert letters in "".join("".join(printed).split()).replace("layoutclaimed", "")
    assert fit(table, 60, cell_len).footnotes == (f"(1) {letters}",)
