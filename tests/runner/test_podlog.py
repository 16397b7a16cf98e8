"""A pod's log over connections that are lost: no line is missing, none is doubled."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from runner.targets.podlog import PodLog

ZONES = st.sampled_from([timezone.utc, timezone(timedelta(hours=2)), timezone(timedelta(hours=-9, minutes=-30))])
# A step back is a clock that was set; a step of 0 gives the stamp of the line before.
STEPS = st.tuples(
    st.sampled_from([0, 0, 1, 1, 2, 3, 20, -4]), st.binary(max_size=8).map(lambda text: text.replace(b"\n", b" "))
)
TEXTS = st.lists(STEPS, max_size=60).filter(lambda steps: all(back < 10 for back in backs(steps)))


def backs(steps: list[tuple[int, bytes]]) -> list[int]:
    """How far each line is behind the latest one, in 400 ms."""
    places = list(accumulate(step for step, _ in steps))
    return [latest - place for latest, place in zip(accumulate(places, max), places, strict=True)]


def stamped(steps: list[tuple[int, bytes]], zone: timezone) -> list[tuple[datetime, bytes]]:
    """Lines as the kubelet writes them, in its own time zone, with the second that each is of."""
    nanoseconds, lines = 3_600_000_000_000, []
    for step, text in steps:
        nanoseconds += step * 400_000_000
        seconds, fraction = divmod(nanoseconds, 1_000_000_000)
        moment = datetime(2026, 11, 21, tzinfo=timezone.utc) + timedelta(seconds=seconds)
        local = moment.astimezone(zone).isoformat()
        stamp = f"{local[:19]}.{fraction:09d}{local[19:].replace('+00:00', 'Z')}"
        lines.append((moment, stamp.encode() + b" " + text + b"\n"))
    return lines


def served(lines: list[tuple[datetime, bytes]], since: str | None) -> bytes:
    """What the kubelet sends: it goes by whole seconds, whatever the order."""
    first = datetime.fromisoformat(since) if since else None
    return b"".join(line for moment, line in lines if first is None or moment >= first)


@given(TEXTS, ZONES, st.lists(st.integers(0, 400), max_size=8), st.data())
def test_cut_at_any_byte_every_line_comes_once(
    steps: list[tuple[int, bytes]], zone: timezone, cuts: list[int], data: st.DataObject
) -> None:
    lines = stamped(steps, zone)
    log, got = PodLog(), []
    for cut in [*cuts, 10**9]:
        log.connected()
        sent = served(lines, log.since)[:cut]
        middle = data.draw(st.integers(0, len(sent)))
        got += [*log.feed(sent[:middle]), *log.feed(sent[middle:])]
    assert got == [text for _, text in steps]


def test_a_last_line_without_a_newline_is_kept_once_the_container_has_ended() -> None:
    log = PodLog()
    log.connected()
    assert list(log.feed(b"2026-11-21T10:00:00.5Z one\n2026-11-21T10:00:00.6Z tw")) == [b"one"]
    log.connected()
    assert list(log.feed(b"2026-11-21T10:00:00.5Z one\n2026-11-21T10:00:00.6Z two")) == []
    assert list(log.finish()) == [b"two"]
    assert list(log.finish()) == []


def test_a_log_that_was_rotated_between_two_connections_is_taken_up_where_it_now_begins() -> None:
    log = PodLog()
    log.connected()
    assert list(log.feed(b"2026-11-21T10:00:00.1Z a\n2026-11-21T10:00:00.2Z b\n")) == [b"a", b"b"]
    log.connected()
    assert list(log.feed(b"2026-11-21T10:00:00.3Z c\n2026-11-21T10:00:00.4Z d\n")) == [b"c", b"d"]


def test_what_a_proxy_says_of_its_own_trouble_is_no_line_of_the_log() -> None:
    log = PodLog()
    log.connected()
    assert list(log.feed(b"unable to retrieve container logs\n2026-11-21T10:00:00.1Z a\n")) == [b"a"]
