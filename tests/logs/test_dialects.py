"""Dialects: each reads the lines that it shows, and a bad one is refused in one line with its place."""

from __future__ import annotations

import io
import re
import sys
import time
from pathlib import Path

import pytest

from runner.core.errors import RequestError
from runner.logs import budget
from runner.logs.dialect import FOLDER, GENERAL, Dialect, built_in, load
from runner.logs.fields import value_of
from runner.logs.pattern import LINE, PLAIN_FROM, PatternError, compile_checked
from runner.logs.reading import read_stream

ROOT = Path(__file__).resolve().parents[2]
GOOD = r"""name: mine
about: a program of mine
lines:
  - pattern: 'round (?P<epoch>{int}) cost (?P<train_loss>{number}) in (?P<wall>{number})'
    example: round 3 cost 0.25 in 1200
    units: {wall: ms}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text, "utf-8")
    return path


def test_the_kit_brings_dialects_and_each_has_a_name_of_its_own() -> None:
    names = [dialect.name for dialect in built_in()]
    assert len(names) > 10
    assert names == [*sorted(path.stem for path in FOLDER.glob("*.yaml")), GENERAL]


@pytest.mark.parametrize("dialect", built_in(), ids=lambda one: one.name)
def test_each_pattern_is_tried_on_the_line_that_it_shows(dialect: Dialect) -> None:
    for pattern in dialect.patterns:
        assert all(text in pattern.example for text in pattern.literals), pattern.example


def test_the_page_about_dialects_shows_each_with_lines_that_its_patterns_read() -> None:
    page = (ROOT / "docs" / "dialects.md").read_text("utf-8")
    for dialect in built_in():
        section = page.partition(f"\n### {dialect.name}\n")[2].partition("\n### ")[0]
        shown = section.partition("```\n")[2].partition("```")[0].splitlines()
        examples = {pattern.example.expandtabs(4).strip() for pattern in dialect.patterns}
        assert shown, dialect.name
        assert dialect.name == GENERAL or examples.issuperset(shown), dialect.name


def test_a_person_adds_a_dialect_with_a_few_lines(tmp_path: Path) -> None:
    (pattern,) = load(write(tmp_path, GOOD)).patterns
    found = pattern.regex.search("round 7 cost 1e-3 in 2,500") or pattern.regex.search("round 7 cost 1e-3 in 2500")
    assert found
    assert pattern.fields(found)["train_loss"] == 0.001
    assert not load(write(tmp_path, GOOD)).built_in


@pytest.mark.parametrize("text", ["nan", "1e999", "9" * 4_000, "x"])
def test_a_field_that_is_no_number_is_left_out(text: str) -> None:
    assert value_of("epoch", text, None) is None
    assert value_of("accuracy", text, "percent") is None


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("(?P<epoch>{int})", "(?P<epoch>{int}", 4, "it is broken: missing )"),
        ("<epoch>", "<epcoh>", 4, "unknown field 'epcoh'; did you mean 'epoch'?"),
        ("wall: ms", "wall: fortnights", 6, "'fortnights' is no unit of 'wall'"),
        ("wall: ms", "wal: ms", 6, "'wal' is no field of the pattern"),
        ("    units: {wall: ms}\n", "", 4, "'wall' needs a unit"),
        ("round 3 cost", "round three cost", 5, "the pattern does not match its example"),
        ("    example: round 3 cost 0.25 in 1200\n", "", 4, "it has no 'example'"),
        ("about: a", "abuot: a", 2, "unknown key 'abuot'; did you mean 'about'?"),
        ("round (", "(round|x)* (", 4, "a repeat stands within a repeat"),
        ("round (", "(?:o+)+ (", 4, "a repeat stands within a repeat"),
        ("round (", ".* .* .* (", 4, "a search can take"),
        ("round (", "(?=round) (", 4, "it looks ahead"),
        ("round (", "(?i)round (", 4, "it sets flags"),
        ("name: mine", "name: [mine]", 1, "'name' has to be a text"),
        ("    units", "    says: maybe\n    units", 6, "'says' is one of"),
        ("    units", "    sets: {world_size: [2]}\n    units", 6, "'world_size' has to be a whole number from 1"),
        ("    units", "    sets: {nnodes: {a: 1}}\n    units", 6, "'nnodes' has to be a whole number from 1"),
        ("    units", "    sets: {world_size: .inf}\n    units", 6, "'world_size' has to be a whole number from 1"),
        ("    units", "    sets: {world_size: two}\n    units", 6, "'world_size' has to be a whole number from 1"),
        ("    units", "    sets: {nnodes: 0}\n    units", 6, "'nnodes' has to be a whole number from 1"),
        ("    units", "    sets: {backend: [gloo]}\n    units", 6, "'backend' has to be a text of at most 60 letters"),
        ("    units", f"    sets: {{backend: {'x' * 61}}}\n    units", 6, "'backend' has to be a text of at most 60"),
    ],
)
def test_a_bad_dialect_is_refused_in_one_line_with_its_place(
    tmp_path: Path, old: str, new: str, line: int, words: str
) -> None:
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new))
    with pytest.raises(RequestError) as error:
        load(path)
    problems = str(error.value).splitlines()
    assert any(problem.startswith(f"{path}:{line}: ") and words in problem for problem in problems)


def test_all_that_is_wrong_with_a_dialect_is_said_at_once_in_the_order_of_its_lines(tmp_path: Path) -> None:
    text = GOOD.replace("about:", "abuot:").replace("<epoch>", "<epcoh>").replace("wall: ms", "wall: fortnights")
    text += "    says: maybe\n  - pattern: '(?:o+)+ round'\n  - 5\n"
    path = write(tmp_path, text)
    with pytest.raises(RequestError) as error:
        load(path)
    places = [line.removeprefix(f"{path}:").split(": ")[0] for line in str(error.value).splitlines()]
    assert places == ["1", "2", "4", "6", "7", "8", "9"]


@pytest.mark.parametrize(
    "text", ["", "a", r"\d+", "(?P<epoch>{int})", "a" * 600, "(a|ab)(c|bcd)(d*)", r"(x)\1abc", "a{9999999999}bcd"]
)
def test_a_pattern_without_fixed_text_or_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(PatternError):
        compile_checked(text)


@pytest.mark.parametrize(
    "text",
    [
        "^[а-я]{0,4000}[а-я]{0,4000}[а-я]{0,4000}loss (?P<train_loss>{number})",
        "^.{0,4000}х.{0,4000}х.{0,4000}х.{0,4000}loss (?P<train_loss>{number})",
        "^[а-я]{0,4000}[^а-э]{0,4000}[ю-я]{0,4000}[юё]{0,4000}loss",
        r"^[^\x00-\xff]{0,4000}[^\x00-\xff]{0,4000}[^\x00-\xff]{0,4000}loss",
        r"^[\u2fd6-\u4e00]{0,4000}\s{0,4000}[\u2fd6-\u4e00]{0,4000}\s{0,4000}loss",
        r"^[\U000f0000-\U000fffff]{0,4000}\W{0,4000}[^a]{0,4000}loss",
        "^[a-k]{0,4000}[a-k]{0,4000}[a-k]{0,4000}loss",
        "^(?:.{4098,9000})?.{0,4000}.{0,4000}.{0,4000}loss",
    ],
)
def test_repeats_that_share_any_letters_at_all_are_refused(text: str) -> None:
    with pytest.raises(PatternError, match="a search can take"):
        compile_checked(text)


PLACES = [r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", ".", "x", "[^x]", "[а-я]", "[^а-я]", "[\u2000-\u3000]", "[٣５]"]
PLACES += [r"[^\x00-\xff]", r"[\W\d]", "[\U00020000-\U0010ffff]", "[^\\W\U00020000-\U0002ffff]"]
LETTERS = "x_0 -\t\xa0éяЖ٣５秒\u3000。\u2071\u2028\U0001d7d8\U00020001\U0010ffff"


@pytest.mark.parametrize("first", PLACES)
def test_two_places_of_a_pattern_are_known_to_share_a_letter(first: str) -> None:
    for second in PLACES:
        if any(re.match(first, letter) and re.match(second, letter) for letter in LETTERS):
            with pytest.raises(PatternError, match="a search can take 10 steps"):
                compile_checked(f"^{first}{{0,9}}{second}loss", 9)


def test_letters_beyond_a_number_are_of_one_kind() -> None:
    assert not re.search(r"[\w\s]", "".join(map(chr, range(PLAIN_FROM, sys.maxunicode + 1))))


@pytest.mark.parametrize("text", ["(?i:loss): {number}", "x?(?=a)loss", r"(x)(?:\1){2,3}loss", "(?:(?<!a)b){2,5}loss"])
def test_flags_and_looks_within_a_pattern_are_refused_too(text: str) -> None:
    with pytest.raises(PatternError, match="it sets flags|it looks ahead, behind or back"):
        compile_checked(text)


@pytest.mark.parametrize("text", ["^[а-я]{0,4000} loss", "训练耗时 ?[:：] ?{number} ?秒", r"[а-я]{1,40} \w{1,40} loss"])
def test_letters_of_any_script_are_taken_where_they_end_soon(text: str) -> None:
    assert compile_checked(text)


@pytest.mark.parametrize(
    "text", [r"loss.*x.*y", r"[a-z ]+ss: \d+", r"loss(?:a{1,3}){1,3}!", r"^(?:\w+ )?\w+ .*loss: {number}"]
)
def test_what_is_taken_ends_soon_on_the_worst_lines(text: str) -> None:
    try:
        regex, _ = compile_checked(text)
    except PatternError:
        return
    for line in ("a" * LINE, "loss" * (LINE // 4), "lossx" * (LINE // 5), "loss" + "a" * LINE, "1" * LINE, " " * LINE):
        begun = time.process_time()
        regex.search(line)
        assert time.process_time() - begun < 5


@pytest.mark.parametrize("dialect", built_in(), ids=lambda one: one.name)
def test_no_pattern_of_the_kit_is_slow_on_a_line_made_to_be(dialect: Dialect) -> None:
    for pattern in dialect.patterns:
        part = pattern.example[: len(pattern.example) // 2] or "x"
        for line in ((part * LINE)[:LINE], (pattern.literals[0] * LINE)[:LINE], pattern.example + "1" * LINE):
            begun = time.process_time()
            pattern.regex.search(line)
            assert time.process_time() - begun < 1, pattern.regex.pattern


def test_the_time_of_all_patterns_over_a_log_is_bounded_and_the_slowest_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "SECONDS", 0.0)
    text = "name: mine\nabout: x\nlines:\n"
    text += "  - pattern: 'a.{0,95}.{0,95}loss (?P<train_loss>{number})'\n    example: 'a loss 0.5'\n"
    path = write(tmp_path, text)
    log = b"loss " + b"a" * 4_000 + b"\n"
    with pytest.raises(RequestError, match=r":4: this pattern took .* s of a log, and all of its dialect more than"):
        read_stream(io.BytesIO(log * 9).read, [load(path)])
