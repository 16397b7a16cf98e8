"""A pod's log over connections that break: no line is lost or repeated."""

import threading
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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
STEPS = st.lists(st.tuples(st.sampled_from([0, 0, 1, 1, 2, 3, 20, -4]), st.binary(max_size=8)), max_size=60)
STEP = timedelta(milliseconds=400)


def stamped(steps: list[tuple[int, bytes]], zone: timezone) -> Log:
    """Return a kubelet's lines and their times; a negative step is a clock that was set back, by 3.6 s at most."""
    lines: Log = []
    moment = latest = datetime(2026, 11, 21, 1, tzinfo=zone)
    for step, text in steps:
        moment = max(moment + step * STEP, latest - 9 * STEP)
        latest = max(moment, latest)
        stamp = moment.isoformat(timespec="microseconds").replace("+00:00", "Z").encode()
        lines.append((moment, stamp[:26] + b"000" + stamp[26:] + b" " + text.replace(b"\n", b"") + b"\n"))
    return lines


def served(lines: Log, since: str | None) -> bytes:
    """Return what the kubelet sends for a `sinceTime`."""
    return b"".join(line for moment, line in lines if not since or moment >= datetime.fromisoformat(since))


def texts(lines: Log) -> bytes:
    return b"".join(line.partition(b" ")[2] for _, line in lines)


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
    assert b"".join(got) == texts(lines)


def test_a_proxy_s_trouble_is_no_line_and_the_last_line_needs_no_newline() -> None:
    log, (a, b) = PodLog(), (b"2026-11-21T10:00:0%d.1Z " % second for second in (0, 9))
    sent = [b"unable to retrieve container logs\n" + a + b"a\n" + b"x" * 200_000 + b" y\n", b + b"b"]
    assert b"".join(text for block in sent for text in log.new([block])) + log.finish() == b"a\nb\n"


class Cutting(BaseHTTPRequestHandler):
    """A cluster with one log, which breaks each connection within a line, ends it there politely, or refuses it."""

    protocol_version = "HTTP/1.1"
    log: ClassVar[Log] = []
    cuts = 0

    def do_GET(self) -> None:
        Cutting.cuts += 1
        how = self.cuts % 3
        self.close_connection = how != 1
        if not how:
            return self.send_error(503)
        since = parse_qs(urlsplit(self.path).query).get("sinceTime", [None])[0]
        data = served(self.log, since)[:2_000]
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) + b"0\r\n\r\n" * (how == 1))
        return None

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.mark.usefixtures("held_clock")
def test_every_line_comes_once_over_connections_that_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Cutting.log = stamped([(2, b"line %d " % number + b"x" * 40) for number in range(500)], timezone.utc)
    path = tmp_path / "log"
    with ThreadingHTTPServer(("127.0.0.1", 0), Cutting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        config = kubeconfig(tmp_path, f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("KUBECONFIG", config["KUBECONFIG"])
        node = Pod(Cluster("lab"), 1, path.open("wb"))
        node.seen(pod({"running": {}}))
        node.begin()
        until(lambda: b"line 499 x" in path.read_bytes())
        node.seen(pod(terminated(0)))
        until(lambda: node.ended)
        server.shutdown()
    assert (path.read_bytes(), node.failure) == (texts(Cutting.log), None)
    assert Cutting.cuts > 20
