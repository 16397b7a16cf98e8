"""A pod's log over connections that are lost: no line is missing, none is doubled."""

from datetime import datetime, timedelta, timezone
from itertools import accumulate

from hypothesis import given, settings
from hypothesis import strategies as st

from runner.targets.kubernetes.pods import LONGEST_HELD, PodLog

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
    assert b"".join(got) == b"".join(text + b"\n" for _, text in steps)


def fed(log: PodLog, data: bytes) -> bytes:
    return b"".join(log.feed(data))


def test_a_last_line_without_a_newline_is_kept_once_the_container_has_ended() -> None:
    log = PodLog()
    log.connected()
    assert fed(log, b"2026-11-21T10:00:00.5Z one\n2026-11-21T10:00:00.6Z tw") == b"one\n"
    log.connected()
    assert fed(log, b"2026-11-21T10:00:00.5Z one\n2026-11-21T10:00:00.6Z two") == b""
    assert b"".join(log.finish()) == b"two\n"
    assert list(log.finish()) == []


def test_a_log_that_was_rotated_between_two_connections_goes_on_where_it_now_begins() -> None:
    log = PodLog()
    log.connected()
    assert fed(log, b"2026-11-21T10:00:00.1Z a\n2026-11-21T10:00:00.2Z b\n") == b"a\nb\n"
    log.connected()
    assert fed(log, b"2026-11-21T10:00:00.3Z c\n2026-11-21T10:00:00.4Z d\n") == b"c\nd\n"


def test_what_a_proxy_says_of_its_own_trouble_is_no_line_of_the_log() -> None:
    log = PodLog()
    log.connected()
    assert fed(log, b"unable to retrieve container logs\n2026-11-21T10:00:00.1Z a\n") == b"a\n"
    assert fed(log, b"x" * 200_000 + b" y\n2026-11-21T10:00:00.2Z b\n") == b"b\n"


@given(st.lists(st.integers(0, 900_000), max_size=5), st.integers(5_000, 70_000))
@settings(max_examples=30)
def test_a_line_of_any_length_comes_once_in_pieces_over_connections_that_break_within_it(
    cuts: list[int], block: int
) -> None:
    text = b"0123456789" * 40_000
    sent = b"2026-11-21T10:00:00.1Z a\n2026-11-21T10:00:00.2Z " + text + b"\n2026-11-21T10:00:00.3Z c\n"
    log, got = PodLog(), []
    for cut in [*cuts, len(sent)]:
        log.connected()
        for start in range(0, min(cut, len(sent)), block):
            pieces = list(log.feed(sent[start : min(start + block, cut)]))
            assert sum(map(len, pieces)) <= LONGEST_HELD + block
            got += pieces
    assert b"".join(got) == b"a\n" + text + b"\nc\n"


def test_a_line_that_was_rotated_away_while_the_connection_was_lost_ends_where_it_broke() -> None:
    log = PodLog()
    log.connected()
    assert fed(log, b"2026-11-21T10:00:00.1Z " + b"x" * 100_000) == b"x" * 100_000
    log.connected()
    assert fed(log, b"2026-11-21T10:00:09.1Z b\n") == b"\nb\n"
