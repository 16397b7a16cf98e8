"""Two doctors ask each other over a real connection; whoever else answers, or asks, does no harm."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from runner.core import clock
from runner.core.errors import RequestError
from runner.tools.doctor import answer, peers
from runner.tools.doctor.finding import Finding
from runner.tools.doctor.network import check_peers
from runner.tools.doctor.peers import MOST_PEERS, Peer, look_at, parse
from tests.support.faults import Fault
from tests.support.held_clock import HeldClock

SKEWED = pytest.mark.fault("doctor: the clock of a peer is skewed", series=5)
FACTS = {"host": "node1", "python": "3.11.7", "torch": "2.3.1", "interfaces": ["eth0"], "own_addresses": ["10.0.0.1"]}


@pytest.fixture(autouse=True)
def _nobody_is_taken_for_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "SECONDS", 600)
    monkeypatch.setattr(peers, "SECONDS", 600)
    monkeypatch.setattr(peers, "RESOLVE_SECONDS", 600)


@contextmanager
def serving(now: Callable[[], float] = clock.now) -> Iterator[int]:
    with closing(answer.listen("127.0.0.1", 0)) as listening:
        threading.Thread(target=answer.serve, args=(listening, FACTS, now), daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


@contextmanager
def saying(data: bytes) -> Iterator[int]:
    """Something that listens and says always the same."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def say() -> None:
            while True:
                try:
                    connected, _ = server.accept()
                except OSError:
                    return
                with closing(connected):
                    try:
                        connected.sendall(data)
                        connected.recv(1000)
                    except OSError:
                        continue

        threading.Thread(target=say, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def asked(port: int) -> Peer:
    (peer,) = look_at([("127.0.0.1", port)])
    return peer


def findings(peer: Peer) -> list[Finding]:
    """What is found of a peer, as if it were another host."""
    peer.addresses = ["10.0.0.2"]
    return [finding for finding in check_peers([peer], FACTS, "node0") if finding.check in ("clock", "versions")]


@pytest.mark.parametrize(
    ("skew", "state", "seen"),
    [
        (0, "ok", "ms"),
        (1, "warning", "ahead of"),
        pytest.param(30, "wrong", "30.0 s ahead of", marks=SKEWED),
        pytest.param(-3600, "wrong", "s behind", marks=SKEWED),
    ],
)
def test_a_skewed_clock_is_seen(skew: float, state: str, seen: str, fault: Fault, held_clock: HeldClock) -> None:
    with serving(lambda: held_clock.now() + skew) as port, fault.told():
        peer = asked(port)
    assert peer.answer
    assert peer.answer["offset_seconds"] == pytest.approx(skew)
    (found,) = [finding for finding in findings(peer) if finding.check == "clock"]
    assert (found.state, seen in found.seen) == (state, True), found
    assert state == "ok" or "timedatectl set-ntp true" in found.mend


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"[" * 5000 + b"\n",
        b"x" * 100_000,
        b"{}\n",
        b'{"doctor": 1, "received": 1e999, "sent": 1, "facts": {}}\n',
        b'{"doctor": 1, "received": "1", "sent": 1, "facts": {}}\n',
        b'{"doctor": 1, "received": 1, "sent": 1, "facts": 7}\n',
    ],
)
def test_another_program_at_the_port_is_no_doctor(data: bytes) -> None:
    with saying(data) as port:
        peer = asked(port)
    assert (peer.state, peer.answer) == ("open", None)


def test_what_a_stranger_says_cannot_move_the_cursor() -> None:
    facts = {"torch": "2.4\x1b[2J\n", "host": "x" * 900, "nccl": None, "other": "left out"}
    said = json.dumps({"doctor": 1, "received": clock.now(), "sent": clock.now(), "facts": facts})
    with saying(said.encode() + b"\n") as port:
        peer = asked(port)
    assert peer.answer
    assert set(peer.answer["facts"]) == {"torch", "host"}
    assert all(finding.seen.isprintable() for finding in findings(peer))


def test_whoever_asks_nonsense_or_says_nothing_does_not_keep_others_out() -> None:
    with serving() as port:
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(15)]
        with socket.create_connection(("127.0.0.1", port)) as nonsense:
            nonsense.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert nonsense.recv(100) == b""
        assert asked(port).answer
        for asker in silent:
            asker.close()


def test_an_address_that_is_not_this_machine_s_or_a_port_in_use_is_refused() -> None:
    with pytest.raises(RequestError, match=r"--listen 203\.0\.113\.1: .*name an address of this machine"):
        answer.listen("203.0.113.1", 29500)
    with serving() as port, pytest.raises(RequestError, match=f"port {port} is in use"):
        answer.listen("127.0.0.1", port)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("a,b.example:1", [("a", 29500), ("b.example", 1)]),
        ("10.0.0.1 , 10.0.0.1", [("10.0.0.1", 29500)]),
        ("::1,[fe80::1%eth0]:7", [("::1", 29500), ("fe80::1%eth0", 7)]),
    ],
)
def test_peers_are_names_or_addresses_with_or_without_a_port(words: str, expected: list[tuple[str, int]]) -> None:
    assert parse(words, 29500) == expected


TOO_MANY = ",".join(f"host{number}" for number in range(MOST_PEERS + 1))


@pytest.mark.parametrize("words", ["a,", "-x", "a b", "a:0", "a:99999", "\x1b[2J", "a" * 300, TOO_MANY])
def test_what_is_no_host_is_refused_in_one_line(words: str) -> None:
    with pytest.raises(RequestError) as refused:
        parse(words, 29500)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 300
