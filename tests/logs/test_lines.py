"""Bytes become whole lines of bounded length, whatever they are."""

import io
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.logs import lines
from runner.logs.lines import Lines

TEXT = st.lists(st.sampled_from([b"a", b"loss", b"\n", b"\r", b"\r\n", b"\xff", "秒".encode()]), max_size=60).map(
    b"".join
)


def blocks(data: bytes, size: int) -> tuple[Lines, list[lines.Block]]:
    stream = io.BytesIO(data)
    reader = Lines(lambda most: stream.read(min(size, most)))
    return reader, list(reader.blocks())


@given(TEXT, st.integers(1, 20))
@settings(max_examples=200, deadline=None)
def test_every_byte_comes_once_and_lines_are_counted_as_in_an_editor(data: bytes, size: int) -> None:
    reader, found = blocks(data, size)
    assert b"".join(block.data for block in found) == data
    assert reader.bytes == len(data)
    line = 1
    for block in found:
        assert block.line == line
        line += block.data.count(b"\n")
    for block, _ in pairwise(found):
        assert block.data.endswith((b"\n", b"\r"))  # no line is torn between two blocks


def test_a_line_without_an_end_is_cut_and_those_after_it_keep_their_numbers() -> None:
    data = b"first\n" + b"x" * (5 * lines.LONGEST) + b"\nthird\n"
    reader, found = blocks(data, 10_000)
    assert reader.cut == 1
    assert sum(len(block.data) for block in found) <= lines.LONGEST + 20_000
    assert [block.line for block in found if b"third" in block.data] == [3]


@pytest.mark.parametrize("size", [*range(1, 60), 1_000])
def test_what_the_observer_writes_within_a_line_tears_it_no_more_and_lines_keep_their_numbers(size: int) -> None:
    event = b'\n:::MLLOG {"key": "observed"}\n'
    _, found = blocks(b"first\n" + event + b"accuracy: 0." + event + event + b"90" + event + b"01\nlast\n", size)
    text = b"".join(block.data for block in found)
    assert text == b"first\n" + b"\n" * 8 + b"accuracy: 0.9001\nlast\n"
    assert all(block.line == 1 + text[: text.index(block.data)].count(b"\n") for block in found if block.data.strip())


@pytest.mark.parametrize("size", [*range(1, 60), 1_000])
def test_lines_that_torchrun_prefixes_are_joined_if_both_parts_are_of_one_rank(size: int) -> None:
    event = b':::MLLOG {"key": "observed"}\n'
    torn = b"[default0]:accuracy: 0.\n[default0]:%s[default0]:90\n" % event
    apart = b"[default1]:loss: 1\n[default0]:%s[default0]:x\n[default0]:y\n[default0]:%s[default1]:2\n" % (event, event)
    _, found = blocks(torn + apart, size)
    text = b"".join(block.data for block in found)
    assert text == b"\n\n[default0]:accuracy: 0.90\n" + apart
