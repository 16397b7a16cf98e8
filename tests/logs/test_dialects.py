"""Dialects: each reads its own examples quickly, and a bad one is refused in one line with its place."""

import re
import time
from pathlib import Path

import pytest

from runner.core.errors import RequestError
from runner.logs.dialect import Dialect, built_in, load
from runner.logs.pattern import LINE, PatternError, compile_pattern, value_of
from runner.logs.reading import read_log

GOOD = r"""name: mine
about: a program of mine
lines:
  - pattern: 'round (?P<epoch>{int}) cost (?P<train_loss>{number}) in (?P<wall>{number})'
    example: round 3 cost 0.25 in 1200
    units: {wall: ms}
"""


def test_the_page_about_dialects_lists_each() -> None:
    page = Path(__file__, "../../../docs/dialects.md").resolve().read_text("utf-8")
    assert {dialect.name for dialect in built_in()} <= set(re.findall(r"`([\w-]+)`", page))


@pytest.mark.parametrize("text", ["nan", "1e999", "9" * 4_000, "x"])
def test_a_field_that_is_no_number_is_left_out(text: str) -> None:
    match = re.match("(?P<epoch>(?P<accuracy>.*))", text)
    assert match
    assert value_of(match, "epoch", None) is value_of(match, "accuracy", "percent") is None


@pytest.mark.parametrize(
    ("old", "new", "line", "word"),
    [
        ("{int})", "{int}", 4, "missing )"),
        ("<epoch>", "<epcoh>", 4, "'epoch'"),
        ("wall: ms", "wall: fortnights", 6, "'fortnights'"),
        ("wall: ms", "wal: ms", 6, "'wal'"),
        ("    units: {wall: ms}\n", "", 4, "needs a unit"),
        ("round 3", "round three", 5, "example"),
        ("    example: round 3 cost 0.25 in 1200\n", "", 4, "`example`"),
        ("about: a", "abuot: a", 2, "'about'"),
        ("    units", "    unit", 6, "'units'"),
        ("round (", "(?i)round (", 4, "flags"),
        ("name: mine", "name: [mine]", 1, "`str`"),
        ("    units", "    says: maybe\n    units", 6, "maybe"),
    ],
)
def test_a_bad_dialect_is_refused_in_one_line(tmp_path: Path, old: str, new: str, line: int, word: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(RequestError, match=rf"^{re.escape(str(path))}:{line}: .*{re.escape(word)}.*$"):
        load(path)


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
        example = pattern.line.example
        for line in (example[: len(example) // 2] * LINE, pattern.literals[0] * LINE, example + "1" * LINE):
            begun = time.process_time()
            pattern.regex.search(line[: 2 * LINE])
            assert time.process_time() - begun < 1, pattern.regex.pattern


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_blank_line_does_not_count_as_the_line_before(tmp_path: Path, end: str) -> None:
    fraction = "units: {accuracy: fraction}, after: '^== test$'"
    line = f"{{pattern: '^result (?P<accuracy>{{number}})', example: result 0.9, {fraction}}}"
    (tmp_path / "mine.yaml").write_text(f"name: mine\nabout: x\nlines: [{line}]\n")
    (tmp_path / "log").write_text(f"== test{end}{end}result 0.91{end}", newline="")
    assert read_log(tmp_path / "log", [load(tmp_path / "mine.yaml")]).facts.evaluated == 3
