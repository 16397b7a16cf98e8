"""A machine without a Docker Engine: the search for one leaves nothing open, and says in one line what is missing."""

import gc
import socket
import threading
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from runner.core.errors import RequestError
from runner.targets.compose import engine


@pytest.fixture
def hanging_up(tmp_path: Path) -> Iterator[Path]:
    """A socket that accepts every connection and closes it without an answer."""
    path = tmp_path / "engine.sock"
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()

    def serve() -> None:
        with suppress(OSError):  # the server's socket was closed
            while True:
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)

    thread = threading.Thread(target=serve)
    thread.start()
    yield path
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()


def search_fails(address: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Search for an engine at an address where there is none; return the message. No socket may be left open."""
    monkeypatch.setenv("DOCKER_HOST", address)
    engine.reach.cache_clear()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with pytest.raises(RequestError) as refused:
            engine.reach()
        message = str(refused.value)
        del refused
        gc.collect()
    assert [str(warning.message) for warning in said if warning.category is ResourceWarning] == []
    return message


def test_a_search_that_finds_no_engine_leaves_nothing_open(
    hanging_up: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "cannot be used" in search_fails(f"unix://{hanging_up}", monkeypatch)
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(tmp_path / "old.sock"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        tcp = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        for nobody in (f"unix://{tmp_path}/old.sock", f"unix://{tmp_path}/none.sock", tcp):
            way_out = "start it, or name another one with DOCKER_HOST"
            assert search_fails(nobody, monkeypatch) == f"no Docker Engine answers at {nobody}: {way_out}"
