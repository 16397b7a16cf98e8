"""Text from outside in a table's formats: nothing in it is markup, a row of its own, or a formula."""

import json as standard
import re

from hypothesis import given
from hypothesis import strategies as st

from runner.core.text import one_line
from runner.report.formats import csv_cell, json, latex, markdown, markdown_line

ANY = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\x1b\x9b\n|\\<>[]()`*&#=+-@\u202e\t"))


@given(ANY)
def test_no_cell_of_markdown_ends_its_cell_or_begins_html_or_a_link(text: str) -> None:
    cell = markdown(text)
    assert cell.isprintable()
    bare = re.sub(r"\\[\\`|<*~\]&]", "x", cell)
    assert not set(bare) & set("|<`*")
    assert not re.search(r"\](?=[(\[:])", bare)


PLAIN = ("1.68 [1.41, 2.01]", "Intel(R) Xeon(R) Processor, 2 cores", "1x2 gloo", "n = 1", "-1.5")


def test_plain_words_stay_as_they_are_in_markdown() -> None:
    for words in (*PLAIN, "train_seconds", "R & D"):
        assert markdown(words) == words
    assert markdown("a|b\\|c") == r"a\|b\\\|c"
    assert markdown("[click](http://x) <b> &#x202e;") == r"[click\](http://x) \<b> \&#x202e;"
    assert markdown_line("# big") == r"\# big"
    assert markdown_line("---") == r"\---"


def test_no_text_is_run_as_a_formula_by_a_spreadsheet_and_numbers_stay_numbers() -> None:
    for text in ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "＝1"):
        assert str(csv_cell(text))[0] not in "=+-@\t\r＝"
    shown = {-1.5: -1.5, 3: 3, None: None, True: "true", "yes": "yes"}
    assert {value: csv_cell(value) for value in shown} == shown
    assert csv_cell({"lr": -1}) == '{"lr":-1}'


@given(ANY)
def test_json_reads_back_and_shows_no_hidden_character(text: str) -> None:
    encoded = json({"a": text, text: [1, None]})
    assert encoded.isprintable()
    assert standard.loads(encoded) == {"a": text, text: [1, None]} or text == "a"


WORDS = {
    "\\textbackslash{}": "\\",
    "\\textasciicircum{}": "^",
    "\\textasciitilde{}": "~",
    "\\textasciigrave{}": "`",
    "\\textless{}": "<",
    "\\textgreater{}": ">",
    "\\textbar{}": "|",
    "{''}": '"',
    "$\\pm$": "±",
    "$\\div$": "÷",
    "{[}": "[",
    "{*}": "*",
    **{f"\\{letter}": letter for letter in "{}$&#%_"},
}
"""How TeX prints what the escape of a text may hold."""
TOKEN = re.compile(
    "|".join(map(re.escape, sorted(WORDS, key=len, reverse=True))) + r"|([-'?!])\{\}|([^\\{}$&#%_^~<>|`\"])"
)


@given(ANY)
def test_tex_prints_every_text_as_it_is(text: str) -> None:
    printed, place = "", 0
    escaped = latex(text)
    assert not escaped.startswith(("[", "*"))
    assert not re.search("--|''(?!})|``|[?!]`", escaped)
    while place < len(escaped):
        token = TOKEN.match(escaped, place)
        assert token, escaped[place:]
        printed += WORDS.get(token[0]) or token[1] or token[2]
        place = token.end()
    assert printed == one_line(text)


def test_plain_words_stay_as_they_are_in_tex() -> None:
    for words in PLAIN:
        assert latex(words) == words
    assert latex(r"50% of \input{x} & $x_1$") == r"50\% of \textbackslash{}input\{x\} \& \$x\_1\$"
    assert latex("15.92 ±21%") == r"15.92 $\pm$21\%"
    assert latex("a--b?`") == "a-{}-b?{}\\textasciigrave{}"
