"""Bytes become whole lines of bounded length, whatever they are."""

import io
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.logs import lines
from runner.logs.lines import Lines

TEXT = st.lists(st.sampled_from([b"a", b"loss", b"\n", b"\r", b"\r\n", b"\xff", "秒".encode()]), max_size=60)


def blocks(data: bytes, size: int) -> tuple[Lines, list[lines.Block]]:
    stream = io.BytesIO(data)
    reader = Lines(lambda most: stream.read(min(size, most)))
    return reader, list(reader.blocks())


@given(TEXT.map(b"".join), st.integers(1, 20))
@settings(max_examples=200, deadline=None)
def test_every_byte_comes_once_and_lines_are_counted_as_in_an_editor(data: bytes, size: int) -> None:
    reader, found = blocks(data, size)
    assert (b"".join(block.data for block in found), reader.bytes) == (data, len(data))
    for before, block in pairwise(found):
        assert block.line == before.line + before.data.count(b"\n")
        assert before.data.endswith((b"\n", b"\r"))  # no line is torn between two blocks
    assert not found or found[0].line == 1


def test_a_line_without_an_end_is_cut_and_those_after_it_keep_their_numbers() -> None:
    reader, found = blocks(b"first\n" + b"x" * (5 * lines.LONGEST) + b"\nthird\n", 10_000)
    assert reader.cut == 1
    assert sum(len(block.data) for block in found) <= lines.LONGEST + 20_000
    assert [block.line for block in found if b"third" in block.data] == [3]


EVENT = b':::MLLOG {"key": "observed"}\n'
TORN = b"[default0]:accuracy: 0.\n[default0]:%s[default0]:90\n" % EVENT
APART = b"[default1]:loss: 1\n[default0]:%s[default0]:x\n[default0]:y\n[default0]:%s[default1]:2\n" % (EVENT, EVENT)


@pytest.mark.parametrize(
    ("data", "joined"),
    [
        (
            b"first\naccuracy: 0.\n%s\n%s90\n%s01\nlast\n" % (EVENT, EVENT, EVENT),
            b"first\n\n\n\n\n\n\naccuracy: 0.9001\nlast\n",
        ),
        (TORN + APART, b"\n\n[default0]:accuracy: 0.90\n" + APART),
    ],
)
def test_lines_of_one_rank_that_the_observer_tore_are_joined_and_keep_their_numbers(data: bytes, joined: bytes) -> None:
    for size in (*range(1, 60), 1_000):
        _, found = blocks(data, size)
        text = b"".join(block.data for block in found)
        assert text == joined
        for block in found:
            assert not block.data.strip() or block.line == 1 + text[: text.index(block.data)].count(b"\n")
