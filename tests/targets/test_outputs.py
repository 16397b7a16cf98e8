"""Logs of several containers become one: by time, each line once, each with the name of its container."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runner.targets.outputs import LONGEST_PIECE, Output, merged

STAMPS = [b"2026-01-01T00:00:0%d.%09dZ" % (second, fraction) for second in range(3) for fraction in (0, 7)]
LINES = st.lists(st.tuples(st.sampled_from(STAMPS), st.binary(max_size=20).map(lambda text: text.replace(b"\n", b""))))


@given(st.lists(LINES, max_size=4), st.integers(1, 50))
def test_each_line_comes_once_in_the_order_of_the_stamps(logs: list[list[tuple[bytes, bytes]]], size: int) -> None:
    outputs = []
    for number, log in enumerate(logs):
        text = b"".join(b"%s %s\n" % line for line in sorted(log, key=lambda line: line[0]))
        chunks = [text[start : start + size] for start in range(0, len(text), size)]
        outputs.append(Output(f"node{number}-1  | ", chunks, 0))
    lines = b"".join(merged(outputs)).splitlines(keepends=True) if logs else []
    found = b"".join(merged([Output(one.prefix, list(one.chunks), 0) for one in outputs]))
    expected = [b"node%d-1  | %s %s\n" % (number, *line) for number, log in enumerate(logs) for line in log]
    assert sorted(found.split(b"\n")) == sorted(b"".join(expected).split(b"\n"))
    stamps = [line.partition(b"| ")[2][:30] for line in found.split(b"\n") if line]
    assert stamps == sorted(stamps)
    assert len(lines) >= len(expected)


def test_a_line_without_an_end_is_passed_on_in_pieces_and_stays_one_line() -> None:
    chunk = b"x" * LONGEST_PIECE
    pieces = list(merged([Output("a-1  | ", iter([STAMPS[0] + b" ", *[chunk] * 5]), None)]))
    assert max(map(len, pieces)) < 4 * LONGEST_PIECE
    assert b"".join(pieces) == b"a-1  | " + STAMPS[0] + b" " + chunk * 5 + b"\n"


def test_stamps_are_compared_as_times_whatever_their_zone_and_digits() -> None:
    early = b"2026-01-01T01:00:00.05+01:00 early\n2026-01-01T01:00:02+01:00 late\n2026-99-01T01:00:02Z no time\n"
    middle = b"2026-01-01T00:00:00.1Z middle\n"
    found = b"".join(merged([Output("a ", [middle], 0), Output("b ", [early], 0)]))
    assert [line.split()[-1] for line in found.splitlines()] == [b"early", b"middle", b"late", b"time"]
