"""Connections that break, in the middle of a line or as if all had been said: no line is lost and none is doubled."""

import http.client
import itertools
import json
import os
import re
import shlex
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import pytest

from tests.cluster.conftest import Start
from tests.cluster.test_refusals import kubeconfig
from tests.support.cluster import kubectl
from tests.support.launches import until
from tests.support.projects import Project

pytestmark = [pytest.mark.cluster, pytest.mark.alone]  # every other test asks the same API server
MOST_BYTES = 20_000
WANTED = 20


class Cutting(BaseHTTPRequestHandler):
    """Passes everything on to the API server, and cuts each log after some thousand bytes, within a line."""

    protocol_version = "HTTP/1.1"
    upstream = ""
    token = ""
    numbers = itertools.count()
    cuts: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.answer()

    do_POST = do_DELETE = do_GET  # noqa: N815 - the names of http.server

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        address = urlsplit(self.upstream)
        context = ssl._create_unverified_context()  # noqa: S323 - as the kubeconfig says
        upstream = http.client.HTTPSConnection(address.hostname or "", address.port, context=context)
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            upstream.request(self.command, self.path, body or None, headers)
            response = upstream.getresponse()
            self.send_response(response.status)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.pass_on(response, is_log="/log?" in self.path and "follow" in self.path)
        except (OSError, http.client.HTTPException):
            self.close_connection = True
        finally:
            upstream.close()

    def pass_on(self, response: http.client.HTTPResponse, *, is_log: bool) -> None:
        left = MOST_BYTES
        while data := response.read1(2048):
            if is_log and left < len(data):
                return self.cut(data[:left])
            left -= len(data)
            self.chunk(data)
        return self.chunk(b"")

    def cut(self, data: bytes) -> None:
        """End within a line: now without a word, now as if that had been all."""
        within = data.rstrip(b"\n")[:-3] or b"2026"
        self.chunk(within)
        rude = next(self.numbers) % 2
        self.cuts.append("rude" if rude else "polite")
        if rude:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            self.chunk(b"")

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment with a kubeconfig that leads through the proxy."""
    kubectl("create", "serviceaccount", "proxy", "-n", "default")
    kubectl("create", "clusterrolebinding", "proxy", "--clusterrole=cluster-admin", "--serviceaccount=default:proxy")
    Cutting.token = kubectl("create", "token", "proxy", "-n", "default").strip()
    Cutting.upstream = kubectl("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
    Cutting.cuts = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Cutting) as server:
        server.daemon_threads = True
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield kubeconfig(tmp_path, f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
    kubectl("delete", "clusterrolebinding", "proxy")
    kubectl("delete", "serviceaccount", "proxy", "-n", "default")


def test_every_line_comes_once_over_many_connections_and_a_restart_of_the_api_server(
    project: Project, started: Start, proxy: dict[str, str]
) -> None:
    process, folder = started("odd-says", "--layout", "2x1", "--set", "seconds=40", env=proxy)
    log = folder / "raw" / "node1-agent.log"
    until(lambda: log.exists() and log.read_bytes().count(b'"number"') > 1000, 90)
    if restart := os.environ.get("KIT_RESTART"):
        subprocess.run([*shlex.split(restart), "apiserver"], check=True)
    _, stderr = process.communicate()
    assert process.returncode == 0, stderr
    assert len(Cutting.cuts) >= WANTED
    assert set(Cutting.cuts) == {"rude", "polite"}
    record = project.record(folder)
    assert record["status"] == "completed", record["reason"]
    assert record["events"]["seen"] == record["events"]["expected"]
    for node in range(2):
        text = (folder / "raw" / f"node{node}-agent.log").read_text("utf-8")
        numbers = [int(word) for word in re.findall(r'"key": "number", "value": (\d+)', text)]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) > 2000
        sequence = [json.loads(line.partition(":::MLLOG ")[2])["metadata"]["seq"] for line in lines(text)]
        assert sorted(sequence) == list(range(len(sequence)))
        assert text.count("x" * 60) == 1
    until(lambda: kubectl("get", "--raw", "/readyz") == "ok", 60, every=1)


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if ":::MLLOG " in line]
