"""What a program prints -> events, broken lines, and nothing."""

import io
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from runner.records.events import BLOCK_BYTES, LONGEST_KEPT, LONGEST_LINE, Event, Malformed, parse_event, read_events

FOREIGN = st.binary(max_size=80).filter(lambda line: b"\n" not in line and b":::MLLOG " not in line)
GOOD = st.builds(
    lambda key, value, time: line({"time_ms": time, "key": key, "value": value, "metadata": {"rank": value}}),
    st.text(),
    st.none() | st.integers(-(2**53), 2**53) | st.text() | st.lists(st.booleans(), max_size=3),
    st.integers(0, 2**45),
)
BROKEN = st.sampled_from(
    [
        *(b":::MLLOG ", b":::MLLOG {", b":::MLLOG []", b":::MLLOG \xff"),
        *(b":::MLLOG " + b"[" * 5000, b':::MLLOG ":::MLLOG "}'),
        b':::MLLOG {"time_ms": 1, "key": "a"',
        b':::MLLOG {"time_ms": 1, "key": "a", "metadata": null}',
        b':::MLLOG {"time_ms": NaN, "key": "a"}',
        b':::MLLOG {"time_ms": 1, "key": "a"}:::MLLOG {"time_ms": 2, "key": "b"}',
    ]
)


def line(event: dict[str, Any]) -> bytes:
    return b":::MLLOG " + json.dumps(event).encode()


def parse(data: bytes) -> tuple[list[Event], list[Malformed]]:
    blocks = list(read_events(io.BytesIO(data)))
    return [event for block in blocks for event in block.events], [line for block in blocks for line in block.malformed]


def one_by_one(data: bytes) -> tuple[list[Event], list[Malformed]]:
    """Parse each line as a file of its own."""
    found = [parse(text) for text in data.split(b"\n")]
    broken = [line._replace(line=number) for number, (_, lines) in enumerate(found, 1) for line in lines]
    return [event for events, _ in found for event in events], broken


@given(st.lists(st.one_of(GOOD, FOREIGN, BROKEN), max_size=12), st.sampled_from([b"\n", b"\r\n", b"\n\n"]))
def test_events_among_any_other_lines_arrive_in_order_and_no_beginning_is_lost(lines: list[bytes], end: bytes) -> None:
    data = end.join(lines)
    events, broken = parse(data)
    assert (events, broken) == one_by_one(data)
    begun = [number for number, text in enumerate(data.split(b"\n"), 1) if b":::MLLOG " in text]
    assert len(events) + len(broken) == len(begun)
    assert {malformed.line for malformed in broken} <= set(begun)


@settings(max_examples=20)
@given(st.data(), st.integers(-120, 120))
def test_a_block_s_end_loses_nothing(data: st.DataObject, shift: int) -> None:
    event = line({"time_ms": 1, "key": "k", "metadata": {"seq": 0}})
    filling = b"x" * (BLOCK_BYTES + shift - 200)
    breaks = data.draw(st.lists(st.integers(0, len(filling)), max_size=3))
    for place in breaks:
        filling = filling[:place] + b"\n" + filling[place + 1 :]
    text = b"\n".join([event, filling, event, b":::MLLOG {torn", filling, event])
    assert parse(text) == one_by_one(text)
    assert len(parse(text)[0]) == 3


def test_prefixes_and_unknown_fields_are_passed_over_and_missing_fields_have_defaults() -> None:
    text = b'[default0]: 2024 INFO :::MLLOG {"time_ms": 1.5, "key": "k", "new": 1, "namespace": "n"}'
    assert parse(text) == ([Event(1.5, "k")], [])
    assert parse_event(text) == Event(1.5, "k")
    assert (parse(b"see :::MLLOG"), parse_event(b"see :::MLLOG")) == (([], []), None)


def test_a_line_of_the_longest_length_is_whole_and_of_a_much_longer_one_the_beginning_is_malformed() -> None:
    event = b':::MLLOG {"time_ms": 1, "key": "k"}'
    for length, wrong in ((LONGEST_LINE, 0), (3 * LONGEST_LINE, 1)):
        padded = event[:-1] + b" " * (length - len(event)) + b"}\n"
        events, malformed = parse(b"first\n" + padded + event + b"\n:::MLLOG {")
        assert len(events) == 2 - wrong
        assert [line.line for line in malformed] == [2] * wrong + [4]


def test_a_broken_line_says_why_and_how_it_begins() -> None:
    (found,) = parse(b"\n" * 6 + b"x" * 50 + b':::MLLOG {"time_ms": 1}' + b"y" * 500)[1]
    assert (found.line, len(found.text)) == (7, LONGEST_KEPT)
    assert "`key`" in found.reason
