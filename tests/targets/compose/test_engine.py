"""An engine that cannot be used is refused in one line, before anything is written."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from types import SimpleNamespace

import pytest

from runner.core.errors import RequestError
from runner.targets.compose import engine
from tests.support.projects import Project

COMPOSE = ("run", "tiny", "--on", "compose", "--device", "cpu")


def refusal(project: Project, env: dict[str, str], *words: str) -> str:
    before = project.written()
    done = project.runner(*COMPOSE, *words, env=env)
    assert (done.code, done.stdout) == (2, ""), done.stderr
    assert project.written() == before
    (line,) = done.stderr.splitlines()
    return line


class Idle(BaseHTTPRequestHandler):
    """Answers the first questions of a Docker client, as an idle engine would."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        text = b'{"ApiVersion": "1.41"}' if self.path.endswith("/version") else b"OK"
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def answering(tmp_path: Path) -> Iterator[str]:
    path = str(tmp_path / "engine.sock")
    with ThreadingUnixStreamServer(path, Idle) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"unix://{path}"
        server.shutdown()


@pytest.fixture
def bare(answering: str, tmp_path: Path) -> dict[str, str]:
    """The environment with an engine that answers, and a folder for commands that is the whole PATH."""
    (tmp_path / "bin").mkdir()
    return {"DOCKER_HOST": answering, "PATH": str(tmp_path / "bin")}


def test_no_engine_is_said_with_its_place(project: Project) -> None:
    line = refusal(project, {"DOCKER_HOST": f"unix://{project.root.parent}/none.sock"})
    assert line.startswith("error: no Docker Engine answers at unix://")


@pytest.mark.parametrize(
    ("script", "words", "why"),
    [
        ("", [], "no docker command"),
        ("exit 1", [], "no Compose plugin"),
        ("echo 2.26.1", ["--with", "shm_size=16mb"], "--with shm_size=16mb: "),
        ("echo 2.26.1", ["--with", "memory=much"], "--with memory=much: "),
    ],
)
def test_what_lacks_or_is_too_little_is_refused(
    project: Project, bare: dict[str, str], script: str, words: list[str], why: str
) -> None:
    if script:
        docker = Path(bare["PATH"], "docker")
        docker.write_text(f"#!/bin/sh\n{script}\n")
        docker.chmod(0o755)
    assert why in refusal(project, bare, *words)


def test_an_engine_on_another_machine_is_refused() -> None:
    def check(url: str) -> None:
        engine.check_here(SimpleNamespace(api=SimpleNamespace(base_url=url)))

    with pytest.raises(RequestError, match=r"far\.example"):
        check("https://far.example:2376")
    for near in ("http+docker://localhost", "http://127.0.0.1:2375"):
        check(near)
