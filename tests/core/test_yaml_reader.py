"""YAML is read into plain values with their lines, or refused."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core import yaml_reader as yamlfile
from runner.core.errors import RequestError

YAML_ISH = st.text(st.sampled_from("abz019 :-?,[]{}&*!|>'\"%@`#\n\t\\.~<=eE+_x\0\ud800é"), max_size=60)
TAGGED = st.builds(
    "{}!!{} {}".format,
    st.sampled_from(["", "a: ", "- ", "? "]),
    st.sampled_from(
        "int float bool null str map seq set omap pairs timestamp binary merge value python/object:os".split()
    ),
    st.sampled_from(["", "''", "x", "-", "0x", "1:2", "[a]", "{a: b}", "+", "2001-01-01", "~", "0b", "."]),
)


@given(st.text() | YAML_ISH | TAGGED)
def test_any_text_is_read_or_refused_with_its_line(text: str) -> None:
    try:
        document = yamlfile.parse(text, "x.yaml")
    except RequestError as error:
        assert re.match("x.yaml:[1-9]", str(error))
        assert str(error).isprintable()
    else:
        assert document.values is None or () in document.lines
        assert all(1 <= line <= len(text) + 3 for line in document.lines.values())


WORDS = {"1e-3": 0.001, "1E5": 1e5, "0o17": 15, "017": 17, "0x1F": 31, "no": "no", "on": "on", "20:30": "20:30"}
WORDS |= {"true": True, "~": None, ".inf": math.inf, "'1'": "1", "'2001-01-01'": "2001-01-01", "-0.5": -0.5}


def test_words_mean_what_yaml_1_2_says() -> None:
    for text, value in WORDS.items():
        found = yamlfile.parse(f"key: {text}", "x.yaml").values["key"]
        assert (found, type(found)) == (value, type(value))
        assert yamlfile.scalar(text) == value
    for text in ("[", "a: b: c", "*x", ""):
        assert yamlfile.scalar(text) == text


def test_every_key_and_item_has_its_line() -> None:
    lines = yamlfile.parse("# note\na: 1\nb:\n  c: [x,\n      y]\n  d: {e: 2}\n", "x.yaml").lines
    places = {"": 2, "a": 2, "b": 3, "b c": 4, "b c 0": 4, "b c 1": 5, "b d": 6, "b d e": 6}
    assert {" ".join(map(str, place)): line for place, line in lines.items()} == places


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "duplicate key 'a', first in line 1"),
        ("a: 1\n---\nb: 2\n", 2, "second"),
        ("a: &x 1\nb: *x\n", 2, "aliases"),
        ("%YAML 1.1\n---\na: no\n", 1, "YAML 1.2"),
        ("a: 1\nb: !python/object:os.system x\n", 2, "plain"),
        ("a: 1\n? [b, c]\n: 2\n", 2, "key"),
        ("a: [1\nb: 2\n", 2, "not YAML"),
        ("[" * 5_000, 1, "nested too deep"),
        ('a: 1\nb: "\\ud800"\n', 2, "command line"),
        (f"a: 1\nb: {'9' * 5000}\n", 2, "not YAML"),
    ],
)
def test_what_is_no_plain_data_is_refused_at_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(RequestError) as caught:
        yamlfile.parse(text, "x.yaml")
    assert str(caught.value).startswith(f"x.yaml:{line}: ")
    assert words in str(caught.value)


def test_a_file_may_have_a_byte_order_mark_and_has_to_be_there_and_utf8(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes("\ufeffa: 1\r\nb: é\r\n".encode())
    document = yamlfile.read(path)
    assert (document.values, document.lines["b",]) == ({"a": 1, "b": "é"}, 2)
    path.write_bytes(b"a: 1\nb: \xff\n")
    for wrong, words in ((path, "x.yaml:2: not UTF-8"), (tmp_path, "read"), (tmp_path / "missing.yaml", "read")):
        with pytest.raises(RequestError, match=words):
            yamlfile.read(wrong)
