"""The table on a terminal: it fits, and what it leaves out is named."""

import pytest
from rich.cells import cell_len

from runner.cli.terminal import print_table
from runner.report.table import Grid, Table, fit, to_table
from tests.support.summaries import base, block, pair


def test_work_that_grows_with_the_processes_is_not_said_to_be_the_same_in_all_rows() -> None:
    more = pair(scaling="weak", trained_samples=2_000, global_batch_size=200, torch="2.4.0")
    common = to_table(block(base(scaling="weak") + more)).common
    assert common[0].endswith(
        "weak scaling; global batch 100, 200; 1,000 or 2,000 samples trained in 10 steps; torch 2.3.1, 2.4.0"
    )


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


@pytest.mark.parametrize("letters", ["分散学習" * 12, "yes"])
def test_a_table_fits_with_wide_letters_and_what_it_leaves_out_is_named(
    letters: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "24")
    table = Table(
        "t", ["layout", "serial", "MFU", "claimed"], [["1x1", "1%", "4%", letters], ["1x2", "2%", "3%", "no"]]
    )
    print_table(table)
    printed = capsys.readouterr().out.split("\n")
    assert max(map(cell_len, printed)) <= 24
    fitted, text = fit(table, 24, cell_len), "".join("".join(printed).split())
    assert all(left_out in text for left_out in fitted.left_out or "?")
    assert letters in text
    assert fitted.footnotes == ((f"(1) {letters}",) if letters != "yes" else ())
