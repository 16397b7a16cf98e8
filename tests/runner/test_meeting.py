"""Nodes that were started by hand meet before they train: on real sockets."""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.errors import KitError, RequestError, RunError
from runner.meeting import PORT, _answer, host, join


class Thread(threading.Thread):
    """Calls a function and keeps what it returned or raised."""

    def __init__(self, function: Any, *args: Any, **options: Any) -> None:
        super().__init__(daemon=True)
        self.call = (function, args, options)
        self.result: Any = None
        self.start()

    def run(self) -> None:
        function, args, options = self.call
        try:
            self.result = function(*args, **options)
        except KitError as error:
            self.result = error

    def ended(self) -> Any:
        self.join(20)
        assert not self.is_alive()
        return self.result


def quiet(_: str) -> None:
    pass


def test_every_node_is_told_the_run_whoever_comes_first() -> None:
    early = Thread(join, "127.0.0.1", 2, "work", quiet, 20)
    time.sleep(0.5)
    node0 = Thread(host, "the-run", "work", 3, quiet, 20)
    late = Thread(join, "127.0.0.1", 1, "work", quiet, 20)
    assert (early.ended(), late.ended(), node0.ended()) == ("the-run", "the-run", None)


def test_a_node_that_does_not_come_is_named() -> None:
    node0 = Thread(host, "the-run", "work", 4, quiet, 2)
    assert join("127.0.0.1", 2, "work", quiet, 20) == "the-run"
    error = node0.ended()
    assert isinstance(error, RunError)
    assert str(error).startswith("nodes 1, 3 did not come within 2 s")


def test_a_node_0_that_does_not_answer_is_named_with_its_place() -> None:
    with pytest.raises(RunError, match=f"node 0 did not answer at 127.0.0.1:{PORT} within 0.5 s: .*refused"):
        join("127.0.0.1", 1, "work", quiet, 0.5)
    with pytest.raises(RunError, match="node 0 did not answer at no-such-host.invalid"):
        join("no-such-host.invalid", 1, "work", quiet, 0.5)


@pytest.mark.parametrize(
    ("number", "work", "why"),
    [(1, "other", "node 1 has another experiment"), (0, "work", "waits for node 1"), (7, "work", "waits for node 1")],
)
def test_a_node_that_does_not_belong_is_refused_and_the_others_still_meet(number: int, work: str, why: str) -> None:
    said: list[str] = []
    node0 = Thread(host, "the-run", "work", 2, said.append, 20)
    with pytest.raises(RequestError, match=why):
        join("127.0.0.1", number, work, quiet, 20)
    assert why in said[0]
    assert join("127.0.0.1", 1, "work", quiet, 20) == "the-run"
    assert node0.ended() is None


def test_who_is_missing_is_said_while_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.meeting.SAY_SECONDS", 0.3)
    said: list[str] = []
    Thread(host, "the-run", "work", 2, said.append, 3).ended()
    assert said[0] == "waiting for node 1"


@settings(max_examples=60)
@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["node", "work", "x"]), inner),
    ).map(lambda value: json.dumps(value).encode())
)
def test_a_stranger_is_none_of_the_nodes(line: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(line + b"\n")
        theirs.shutdown(socket.SHUT_WR)
        assert _answer(ours, "the-run", "work", {1}, quiet) == -1
