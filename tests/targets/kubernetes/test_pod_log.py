"""A pod's log over connections that are lost: no line is missing, none is doubled."""

import threading
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import accumulate
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.targets.kubernetes.client import Cluster
from runner.targets.kubernetes.pods import Pod, PodLog
from tests.cluster.test_refusals import kubeconfig
from tests.support.launches import until
from tests.targets.kubernetes.test_pods import pod, terminated

Log = list[tuple[datetime, bytes]]
ZONES = st.sampled_from([timezone.utc, timezone(timedelta(hours=2)), timezone(timedelta(hours=-9, minutes=-30))])
# A step back is a clock that was set; a step of 0 gives the stamp of the line before. Each is 400 ms.
STEPS = st.lists(
    st.tuples(st.sampled_from([0, 0, 1, 1, 2, 3, 20, -4]), st.binary(max_size=8)),
    max_size=60,
).filter(lambda steps: furthest_back(steps) < 10)


def furthest_back(steps: list[tuple[int, bytes]]) -> int:
    places = list(accumulate((step for step, _ in steps), initial=0))
    return max(latest - place for latest, place in zip(accumulate(places, max), places, strict=True))


def stamped(steps: list[tuple[int, bytes]], zone: timezone) -> Log:
    """Lines as the kubelet writes them, in its own time zone, with the moment that each is of."""
    moment, lines = datetime(2026, 11, 21, 1, tzinfo=zone), []
    for step, text in steps:
        moment += step * timedelta(milliseconds=400)
        stamp = moment.isoformat(timespec="microseconds").replace("+00:00", "Z").encode()
        lines.append((moment, stamp[:26] + b"000" + stamp[26:] + b" " + text.replace(b"\n", b"") + b"\n"))
    return lines


def served(lines: Log, since: str | None) -> bytes:
    """What the kubelet sends: it goes by whole seconds, whatever the order."""
    first = datetime.fromisoformat(since) if since else None
    return b"".join(line for moment, line in lines if first is None or moment >= first)


@given(STEPS, ZONES, st.lists(st.integers(0, 400), max_size=8), st.data())
def test_cut_at_any_byte_every_line_comes_once(
    steps: list[tuple[int, bytes]], zone: timezone, cuts: list[int], data: st.DataObject
) -> None:
    lines = stamped(steps, zone)
    log, got = PodLog(), []
    for cut in [*cuts, 10**9]:
        sent = served(lines, log.since)[:cut]
        middle = data.draw(st.integers(0, len(sent)))
        got += log.new([sent[:middle], sent[middle:]])
    assert b"".join(got) == b"".join(line.partition(b" ")[2] for _, line in lines)


A, B, C = (b"2026-11-21T10:00:00.%dZ " % number for number in (1, 2, 3))
LATER = b"2026-11-21T10:00:09.1Z "


@pytest.mark.parametrize(
    ("connections", "kept"),
    [
        pytest.param([A + b"one\n" + B + b"two"], b"one\ntwo\n", id="no newline at the end"),
        pytest.param(
            [b"unable to retrieve container logs\n" + A + b"a\n" + b"x" * 200_000 + b" y\n", LATER + b"b\n"],
            b"a\nb\n",
            id="a proxy says its own trouble",
        ),
    ],
)
def test_a_log_goes_on_where_the_next_connection_begins(connections: list[bytes], kept: bytes) -> None:
    log, got = PodLog(), b""
    for sent in connections:
        got += b"".join(log.new([sent]))
    assert got + log.finish() == kept


class Cutting(BaseHTTPRequestHandler):
    """A cluster that has one log: it cuts each connection within a line, rudely or as if all had been said."""

    protocol_version = "HTTP/1.1"
    log: ClassVar[Log] = []
    cuts: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        how = ("rude", "polite", "refused")[len(self.cuts) % 3]
        self.cuts.append(how)
        self.close_connection = how != "polite"
        if how == "refused":
            return self.send_error(503)
        since = parse_qs(urlsplit(self.path).query).get("sinceTime", [None])[0]
        data = served(self.log, since)[:2_000]
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) + b"0\r\n\r\n" * (how == "polite"))
        return None

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.usefixtures("held_clock")
def test_every_line_comes_once_over_connections_that_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Cutting.log = stamped([(2, b"line %d " % number + b"x" * 40) for number in range(500)], timezone.utc)
    Cutting.cuts = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Cutting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name, value in kubeconfig(tmp_path, f"http://127.0.0.1:{server.server_port}").items():
            monkeypatch.setenv(name, value)
        node = Pod(Cluster("lab"), 1, (tmp_path / "log").open("wb"))
        node.seen(pod({"running": {}}))
        node.begin()
        until(lambda: b"line 499 x" in (tmp_path / "log").read_bytes())
        node.seen(pod(terminated(0)))
        until(lambda: node.ended)
        server.shutdown()
    assert (tmp_path / "log").read_bytes() == b"".join(line.partition(b" ")[2] for _, line in Cutting.log)
    assert (len(Cutting.cuts) > 20, node.failure) == (True, None)
