"""Nodes that were started by hand agree on one run before they train: on real sockets."""

import json
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.core.errors import KitError, RequestError, RunError
from runner.core.ports import free_port
from runner.execution import handshake
from runner.execution.handshake import SECRET, SECRET_FILE, read_secret
from tests.support.held_clock import HeldClock
from tests.support.launches import until

RUN = "20261121T120000Z-compose-0123abcd"
KNOWN, OTHER = b"a secret of the nodes", b"a secret of somebody else"
HERE = "127.0.0.1"


def in_thread(function: Callable[[], Any]) -> Future[Any]:
    """Call a function in a thread; the result is what it returned or raised."""
    future: Future[Any] = Future()

    def call() -> None:
        try:
            future.set_result(function())
        except KitError as error:
            future.set_result(error)

    threading.Thread(target=call, daemon=True).start()
    return future


def quiet(_: str) -> None:
    pass


@pytest.fixture
def port() -> int:
    return free_port()


def host(
    port: int,
    nodes: int = 2,
    secret: bytes = b"",
    say: Any = quiet,
    seconds: float = 3_600,
    run: str = RUN,
    master: str = HERE,
) -> Future[Any]:
    return in_thread(lambda: handshake.host(run, "work", nodes, master, secret, say, seconds=seconds, port=port))


def join(port: int, node: int = 1, secret: bytes = b"", work: str = "work", seconds: float = 3_600) -> str:
    return handshake.join(HERE, node, work, secret, quiet, seconds=seconds, port=port)


def ask_once(port: int, secret: bytes = b"") -> None:
    """Join if the first answer is the right one."""
    join(port, secret=secret, seconds=0)


def listens(port: int) -> bool:
    """Whether node 0 listens; it takes the caller for a stranger."""
    with suppress(OSError), socket.create_connection((HERE, port)):
        return True
    return False


def test_every_node_gets_the_run_whoever_comes_first(port: int) -> None:
    with socket.create_server((HERE, port)) as not_yet:
        early = in_thread(lambda: join(port, 2))
        not_yet.accept()[0].close()
    node0 = host(port, nodes=3)
    assert (join(port, 1), early.result(), node0.result()) == (RUN, RUN, None)


def test_who_does_not_come_is_said_and_named_at_the_end(
    port: int, monkeypatch: pytest.MonkeyPatch, held_clock: HeldClock
) -> None:
    monkeypatch.setattr(handshake, "SAY_SECONDS", 0.01)
    said: list[str] = []
    node0 = host(port, nodes=4, say=said.append, seconds=60)
    assert join(port, 2) == RUN
    until(lambda: f"waiting for nodes 1, 3 at {HERE}:{port}" in said)
    held_clock.advance(61)
    error = node0.result()
    assert isinstance(error, RunError)
    assert str(error).startswith(f"nodes 1, 3 did not come to {HERE}:{port} within 60 s")


def test_a_node_0_that_does_not_answer_is_named_with_its_place(port: int) -> None:
    with pytest.raises(RunError, match=f"node 0 did not answer at {HERE}:{port} within 0 s: .*"):
        ask_once(port)
    with pytest.raises(RunError, match="node 0 did not answer at no-such-host.invalid"):
        handshake.join("no-such-host.invalid", 1, "work", b"", quiet, seconds=0)


@pytest.mark.parametrize(
    ("number", "work", "why"), [(1, "other", "node 1 has another experiment"), (7, "work", "waits for node 1")]
)
def test_a_node_that_does_not_belong_is_refused_and_others_agree(port: int, number: int, work: str, why: str) -> None:
    said: list[str] = []
    node0 = host(port, say=said.append)
    with pytest.raises(RequestError, match=why):
        join(port, number, work=work)
    assert why in said[0]
    assert join(port) == RUN
    assert node0.result() is None


@pytest.mark.parametrize("secret", [b"", OTHER], ids=["none", "another"])
def test_a_caller_without_the_secret_is_refused_and_the_node_is_still_expected(port: int, secret: bytes) -> None:
    said: list[str] = []
    node0 = host(port, secret=KNOWN, say=said.append)
    with pytest.raises(RequestError, match=f"set the same {SECRET} on all nodes"):
        join(port, secret=secret)
    assert "does not know this node's secret" in said[0]
    assert join(port, secret=KNOWN) == RUN
    assert node0.result() is None


def test_an_answer_without_proof_is_not_believed(port: int) -> None:
    def answer(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, connection.makefile("rwb", 0) as file:
            for message in ({"nonce": "0" * 32}, {"run": RUN, "proof": "0" * 64}):
                file.readline()
                file.write(json.dumps(message).encode() + b"\n")

    with socket.create_server((HERE, port)) as server:
        in_thread(lambda: answer(server))
        with pytest.raises(RunError, match="does not know this node's secret"):
            ask_once(port, KNOWN)


@pytest.mark.parametrize("run", ["../../x", "", "x" * 300, f"{RUN}\n"])
def test_an_id_that_is_no_run_s_id_is_never_used(port: int, run: str) -> None:
    node0 = host(port, run=run)
    until(lambda: listens(port))
    with pytest.raises(RunError, match=r"its answer is no run's id|no answer|[Cc]onnect"):
        ask_once(port)
    node0.result()


def test_a_slow_caller_holds_up_nobody(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "CALL_SECONDS", 3_600)  # so long the slow ones would hold up a node
    node0 = host(port)
    until(lambda: listens(port))
    slow = [socket.create_connection((HERE, port)) for _ in range(20)]
    for caller in slow:
        caller.sendall(b'{"node": 1')
    assert join(port) == RUN
    assert node0.result() is None
    for caller in slow:
        caller.close()


def test_node_0_listens_only_where_the_others_look_for_it(port: int) -> None:
    said: list[str] = []
    node0 = host(port, say=said.append)
    until(lambda: listens(port))
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.2", port)):
        pass
    assert join(port) == RUN
    assert (node0.result(), said) == (None, [])
    elsewhere = host(port, say=said.append, master="192.0.2.1")
    assert (join(port), elsewhere.result()) == (RUN, None)
    assert said == ["--master 192.0.2.1 is no address of this machine: node 0 listens at all of its addresses"]
    with socket.create_server((HERE, 0)) as taken:
        error = host(taken.getsockname()[1]).result()
    assert isinstance(error, RequestError)
    assert "is in use" in str(error)


def test_a_secret_is_read_once_or_refused_and_is_gone_from_the_environment(tmp_path: Path) -> None:
    environment = {SECRET: "0123456789abcdef"}
    assert read_secret(environment) == b"0123456789abcdef"
    assert SECRET not in environment
    file = tmp_path / "secret"
    file.write_text("0123456789abcdef\n")
    assert read_secret({SECRET_FILE: str(file)}) == b"0123456789abcdef"
    assert read_secret({}) == b""
    link = tmp_path / "link"
    link.symlink_to("/dev/zero")
    for environment in ({SECRET: "short"}, {SECRET_FILE: str(tmp_path / "nowhere")}, {SECRET_FILE: str(link)}):
        with pytest.raises(RequestError, match=SECRET):
            read_secret(environment)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["node", "work", "nonce", "proof"]), inner)
    ),
)
GOOD_NONCE = st.fixed_dictionaries({"node": JSON, "work": JSON, "nonce": st.just("0" * 32)})


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.binary(max_size=9000) | (JSON | GOOD_NONCE).map(lambda value: json.dumps(value).encode()), max_size=3)
)
def test_a_stranger_is_none_of_the_nodes(stranger_s_host: int, lines: list[bytes]) -> None:
    with socket.create_connection((HERE, stranger_s_host)) as connection:
        connection.sendall(b"".join(line + b"\n" for line in lines))
        connection.shutdown(socket.SHUT_WR)
        heard = b""
        try:
            while part := connection.recv(65_536):
                heard += part
        except ConnectionError:
            pass
        assert b'"run"' not in heard


@pytest.fixture(scope="module")
def stranger_s_host() -> Any:
    """A node 0 that serves strangers while the module's test calls it; then the node that it waits for comes."""
    port = free_port()
    node0 = host(port)
    until(lambda: listens(port))
    yield port
    assert join(port) == RUN
    assert node0.result() is None
