"""What a program prints -> events, broken lines, and nothing."""

import io
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.records.events import BLOCK_BYTES, LONGEST_KEPT, LONGEST_LINE, Event, Malformed, parse_event, read_events

EVENT = b':::MLLOG {"time_ms": 1, "key": "k"}'
FOREIGN = st.binary(max_size=80).filter(lambda line: b"\n" not in line and b":::MLLOG " not in line)
VALUES = st.none() | st.integers(-(2**53), 2**53) | st.text() | st.lists(st.booleans(), max_size=3)
GOOD = st.builds(
    dict, time_ms=st.integers(0, 2**45), key=st.text(), value=VALUES, metadata=st.dictionaries(st.text(), VALUES)
).map(lambda event: b":::MLLOG " + json.dumps(event).encode())
TORN = (
    b":::MLLOG ",
    b":::MLLOG {",
    b":::MLLOG \xff",
    b":::MLLOG " + b"[" * 5000,
    b':::MLLOG ":::MLLOG "}',
)
BROKEN = st.sampled_from(
    [*TORN, EVENT[:-1], EVENT[:-1] + b', "metadata": null}', EVENT.replace(b"1", b"NaN"), EVENT + EVENT]
)


def parse(data: bytes) -> tuple[list[Event], list[Malformed]]:
    blocks = list(read_events(io.BytesIO(data)))
    return [event for block in blocks for event in block.events], [line for block in blocks for line in block.malformed]


def one_by_one(data: bytes) -> tuple[list[Event], list[Malformed]]:
    """Parse each line as a file of its own."""
    found = [parse(text) for text in data.split(b"\n")]
    broken = [line._replace(line=number) for number, (_, lines) in enumerate(found, 1) for line in lines]
    return [event for events, _ in found for event in events], broken


@given(st.lists(st.one_of(GOOD, FOREIGN, BROKEN), max_size=12), st.sampled_from([b"\n", b"\r\n", b"\n\n"]))
def test_events_among_other_lines_arrive_in_order_and_no_beginning_is_lost(lines: list[bytes], end: bytes) -> None:
    data = end.join(lines)
    events, broken = parse(data)
    assert (events, broken) == one_by_one(data)
    begun = [number for number, text in enumerate(data.split(b"\n"), 1) if b":::MLLOG " in text]
    assert len(events) + len(broken) == len(begun)
    assert {malformed.line for malformed in broken} <= set(begun)


@settings(max_examples=20)
@given(st.lists(st.integers(0, BLOCK_BYTES - 320), max_size=3), st.integers(-120, 120))
def test_the_end_of_a_block_loses_nothing(breaks: list[int], shift: int) -> None:
    filling = bytearray(b"x" * (BLOCK_BYTES + shift - 200))
    for place in breaks:
        filling[place : place + 1] = b"\n"
    text = b"\n".join([EVENT, filling, EVENT, b":::MLLOG {torn", filling, EVENT])
    assert parse(text) == one_by_one(text)
    assert len(parse(text)[0]) == 3


def test_prefixes_and_unknown_fields_are_ignored_and_missing_fields_have_defaults() -> None:
    text = b'[default0]: 2024 INFO :::MLLOG {"time_ms": 1.5, "key": "k", "new": 1, "namespace": "n"}'
    assert parse(text)[0] == [parse_event(text)] == [Event(1.5, "k")]
    assert (parse(b"see :::MLLOG"), parse_event(b"see :::MLLOG")) == (([], []), None)


@pytest.mark.parametrize(("length", "wrong"), [(LONGEST_LINE, []), (3 * LONGEST_LINE, [2])])
def test_the_longest_line_is_whole_and_a_much_longer_one_is_malformed(length: int, wrong: list[int]) -> None:
    padded = EVENT[:-1].ljust(length - 1) + b"}\n"
    events, malformed = parse(b"first\n" + padded + EVENT + b"\n:::MLLOG {")
    assert len(events) == 2 - len(wrong)
    assert [line.line for line in malformed] == [*wrong, 4]


def test_a_broken_line_has_a_reason_and_its_beginning() -> None:
    (found,) = parse(b"\n" * 6 + b"x" * 50 + b':::MLLOG {"time_ms": 1}' + b"y" * 500)[1]
    assert (found.line, len(found.text)) == (7, LONGEST_KEPT)
    assert "`key`" in found.reason
