"""Dialects: each reads the lines that it shows, and a bad one is refused in one line with its place."""

import io
import re
import time
from pathlib import Path

import pytest

from runner.core.errors import RequestError
from runner.logs.dialect import Dialect, built_in, load
from runner.logs.pattern import LINE, PatternError, compile_pattern, value_of
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


def test_the_page_about_dialects_lists_each() -> None:
    listed = (ROOT / "docs" / "dialects.md").read_text("utf-8").partition("\nKnown are:\n")[2]
    assert set(re.findall(r"`([\w-]+)`", listed)) == {dialect.name for dialect in built_in()}


@pytest.mark.parametrize("text", ["nan", "1e999", "9" * 4_000, "x"])
def test_a_field_that_is_no_number_is_left_out(text: str) -> None:
    match = re.match("(?P<epoch>(?P<accuracy>.*))", text)
    assert match
    assert value_of(match, "epoch", None) is None
    assert value_of(match, "accuracy", "percent") is None


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("(?P<epoch>{int})", "(?P<epoch>{int}", 4, "missing )"),
        ("<epoch>", "<epcoh>", 4, "'epoch'"),
        ("wall: ms", "wall: fortnights", 6, "'fortnights'"),
        ("wall: ms", "wal: ms", 6, "'wal'"),
        ("    units: {wall: ms}\n", "", 4, "needs a unit"),
        ("round 3 cost", "round three cost", 5, "example"),
        ("    example: round 3 cost 0.25 in 1200\n", "", 4, "`example`"),
        ("about: a", "abuot: a", 2, "'about'"),
        ("    units", "    unit", 6, "'units'"),
        ("round (", "(?i)round (", 4, "flags"),
        ("name: mine", "name: [mine]", 1, "`str`"),
        ("    units", "    says: maybe\n    units", 6, "maybe"),
    ],
)
def test_a_bad_dialect_is_refused_in_one_line_with_its_place(
    tmp_path: Path, old: str, new: str, line: int, words: str
) -> None:
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new))
    with pytest.raises(RequestError) as error:
        load(path)
    assert str(error.value).startswith(f"{path}:{line}: ")
    assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *((text, "every match") for text in ("", "a", r"\d+", "(?P<epoch>{int})", "(a|ab)(c|bcd)(d*)")),
        ("a{9999999999}bcd", "invalid"),
        ("(?i:loss): {number}", "flags"),
    ],
)
def test_a_pattern_without_fixed_text_or_of_another_kind_is_refused(text: str, why: str) -> None:
    with pytest.raises(PatternError, match=why):
        compile_pattern(text)


@pytest.mark.parametrize("dialect", built_in(), ids=lambda dialect: dialect.name)
def test_no_pattern_of_the_kit_is_slow_on_a_line_made_to_be(dialect: Dialect) -> None:
    for pattern in dialect.patterns:
        part = pattern.line.example[: len(pattern.line.example) // 2] or "x"
        for line in ((part * LINE)[:LINE], (pattern.literals[0] * LINE)[:LINE], pattern.line.example + "1" * LINE):
            begun = time.process_time()
            pattern.regex.search(line)
            assert time.process_time() - begun < 1, pattern.regex.pattern


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_blank_line_is_not_the_one_before_a_pattern_whatever_ends_the_lines(tmp_path: Path, end: str) -> None:
    text = "name: mine\nabout: x\nlines:\n"
    text += "  - pattern: '^result (?P<accuracy>{number})'\n    example: result 0.9\n"
    text += "    units: {accuracy: fraction}\n    after: '^== test$'\n"
    log = f"== test{end}{end}result 0.91{end}".encode()
    facts = read_stream(io.BytesIO(log).read, [load(write(tmp_path, text))]).facts
    assert facts.evaluated == 3
