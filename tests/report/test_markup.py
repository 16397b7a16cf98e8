"""Text from outside in a table's formats: nothing in it is markup, a row of its own, or a formula."""

from __future__ import annotations

import csv
import io
import json as standard
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.report.markup import csv_cell, json, markdown, markdown_line

ANY = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\x1b\x9b\n|\\<>[]()`*&#=+-@\u202e\t"))


@given(ANY)
def test_no_cell_of_markdown_ends_its_cell_or_begins_html_or_a_link(text: str) -> None:
    cell = markdown(text)
    assert cell.isprintable()
    bare = re.sub(r"\\[\\`|<*~\]&]", "", cell)
    assert not set(bare) & set("|<`*")
    assert not re.search(r"\](?=[(\[:])", bare)


def test_plain_words_stay_as_they_are_in_markdown() -> None:
    for words in ("10.03 [9.65, 10.43]", "Intel(R) Xeon(R) Processor, 2 cores", "train_seconds", "R & D", "1x2 gloo"):
        assert markdown(words) == words
    assert markdown("a|b\\|c") == r"a\|b\\\|c"
    assert markdown("[click](http://x) <b> &#x202e;") == r"[click\](http://x) \<b> \&#x202e;"
    assert markdown_line("# big") == r"\# big"
    assert markdown_line("---") == r"\---"


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "＝1"])
def test_no_text_is_run_as_a_formula_by_a_spreadsheet(text: str) -> None:
    cell = csv_cell(text)
    assert isinstance(cell, str)
    assert cell[0] not in "=+-@\t\r＝"


def test_numbers_of_csv_stay_numbers() -> None:
    assert [csv_cell(value) for value in (-1.5, 3, None, True, "yes", {"lr": -1})] == [
        -1.5, 3, None, "true", "yes", '{"lr":-1}',
    ]  # fmt: skip


@given(ANY)
def test_json_reads_back_and_shows_no_hidden_character(text: str) -> None:
    encoded = json({"a": text, text: [1, None]})
    assert encoded.isprintable()
    assert standard.loads(encoded) == {"a": text, text: [1, None]} or text == "a"


@given(st.lists(ANY, min_size=1, max_size=4))
def test_no_text_forges_a_row_of_csv(texts: list[str]) -> None:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerow([csv_cell(text) for text in texts])
    assert stream.getvalue().count("\n") == 1
    assert len(next(csv.reader([stream.getvalue()]))) == len(texts)
