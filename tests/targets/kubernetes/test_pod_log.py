"""A pod's log over connections that are lost: no line is missing, none is doubled."""

import queue
import threading
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.targets.kubernetes.client import Cluster
from runner.targets.kubernetes.pods import Pod, PodLog
from tests.cluster.test_refusals import kubeconfig
from tests.support.launches import until

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


LAST = [
    b"2026-11-21T10:00:00.5Z one\n2026-11-21T10:00:00.6Z tw",
    b"2026-11-21T10:00:00.5Z one\n2026-11-21T10:00:00.6Z two",
]
ROTATED = [
    b"2026-11-21T10:00:00.1Z a\n2026-11-21T10:00:00.2Z b\n",
    b"2026-11-21T10:00:00.3Z c\n2026-11-21T10:00:00.4Z d\n",
]
ROTATED_WITHIN_A_LINE = [b"2026-11-21T10:00:00.1Z " + b"x" * 100_000, b"2026-11-21T10:00:09.1Z b\n"]
PROXY = [
    b"unable to retrieve container logs\n2026-11-21T10:00:00.1Z a\n" + b"x" * 200_000 + b" y\n",
    b"2026-11-21T10:00:00.2Z b\n",
]


@pytest.mark.parametrize(
    ("connections", "kept"),
    [
        pytest.param(LAST, b"one\ntwo\n", id="the last line has no newline"),
        pytest.param(ROTATED, b"a\nb\nc\nd\n", id="rotated between two connections"),
        pytest.param(ROTATED_WITHIN_A_LINE, b"x" * 100_000 + b"\nb\n", id="rotated within a line"),
        pytest.param(PROXY, b"a\nb\n", id="a proxy says its own trouble"),
    ],
)
def test_a_log_goes_on_where_the_next_connection_begins(connections: list[bytes], kept: bytes) -> None:
    log, got = PodLog(), []
    for sent in connections:
        log.connected()
        got += log.feed(sent)
    assert b"".join([*got, *log.finish()]) == kept
    assert list(log.finish()) == []


class Cutting(BaseHTTPRequestHandler):
    """A cluster that has one log: it cuts each connection within a line, rudely or as if all had been said."""

    protocol_version = "HTTP/1.1"
    log: ClassVar[list[tuple[datetime, bytes]]] = []
    cuts: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        how = ("rude", "polite", "refused")[len(self.cuts) % 3]
        self.cuts.append(how)
        if how == "refused":
            self.close_connection = True
            return self.send_error(503)
        since = parse_qs(urlsplit(self.path).query).get("sinceTime", [None])[0]
        data = served(self.log, since)[:2_000]
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) + b"0\r\n\r\n" * (how == "polite"))
        self.close_connection = how == "rude"
        return None

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.usefixtures("held_clock")
def test_every_line_comes_once_over_connections_that_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [(2, b"line %d " % number + b"x" * 40) for number in range(500)]
    Cutting.log, Cutting.cuts = stamped(steps, timezone.utc), []
    raw: dict[str, Any] = {"metadata": {"name": "job-worker-0"}, "spec": {"containers": [{"name": "pytorch"}]}}
    running, ended = (
        raw | {"status": {"phase": "Running", "containerStatuses": [{"name": "pytorch", "state": state}]}}
        for state in ({"running": {}}, {"terminated": {"exitCode": 0}})
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), Cutting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name, value in kubeconfig(tmp_path, f"http://127.0.0.1:{server.server_port}").items():
            monkeypatch.setenv(name, value)
        pod = Pod(Cluster("lab"), 1, (tmp_path / "log").open("wb"), queue.SimpleQueue())
        pod.seen(running)
        until(lambda: b"line 499 x" in (tmp_path / "log").read_bytes())
        pod.seen(ended)
        until(lambda: pod.is_read)
        server.shutdown()
    assert (tmp_path / "log").read_bytes() == b"".join(text + b"\n" for _, text in steps)
    assert (len(Cutting.cuts) > 20, pod.failure) == (True, None)
