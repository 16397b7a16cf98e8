"""Facts about other hosts of a run: their names, the way to them, and what their ports answer. Nothing is changed."""

import errno
import re
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from runner.core import clock
from runner.core.errors import RequestError, reason_of
from runner.core.network import Route, is_loopback, route_to
from runner.core.text import one_line, shown

SECONDS = 3.0
"""How long an address may take to accept or refuse a connection."""
RESOLVE_SECONDS = 5.0
MOST_PEERS = 256
OPEN, CLOSED, FILTERED, ABSENT, NO_ROUTE = "open", "closed", "filtered", "absent", "no route"
ANY_PORT = 47_591
"""Stands for the ports that Gloo and NCCL choose at random, in Linux' range for that."""
_PEER = re.compile(
    r"\[([\w:.%]+)\](?::(\d{1,5}))?|([\w:.%]*:[\w:.%]*:[\w:.%]*)()|(\w[\w.-]{0,252})(?::(\d{1,5}))?", re.ASCII
)
"""An address in brackets, an IPv6 address without a port, or a name."""
Answer = TypeVar("Answer")


@dataclass
class Peer:
    """One host, as it is seen from here."""

    name: str
    port: int
    addresses: list[str] = field(default_factory=list)
    unresolved: str = ""
    """Why the name has no address."""
    route: Route | None = None
    state: str = ""
    """Of the port: `open`, `closed` (the host refuses), `filtered` (no answer), `absent` (no such host), `no route`."""
    other_ports: str = ""
    """The same of a port that stands for any other."""
    why: str = ""

    @property
    def is_here(self) -> bool:
        """Whether all its addresses are loopback ones."""
        return bool(self.addresses) and all(is_loopback(address) for address in self.addresses)


def parse(words: str, port: int) -> list[tuple[str, int]]:
    """Read `host1,host2:port,[address]:port`; RequestError for what is none."""
    found = []
    for word in words.split(","):
        match = _PEER.fullmatch(word.strip())
        place, own_port = [*filter(None, match.groups()), ""][:2] if match else ("", "")
        if not place or int(own_port or port) not in range(1, 65_536):
            raise RequestError(f"--peers: {shown(word)} is no host: write for example host1,10.0.0.2,host3:29500")
        found.append((place, int(own_port or port)))
    if len(found) > MOST_PEERS:
        raise RequestError(f"--peers: {len(found)} hosts are too many: name at most {MOST_PEERS}")
    return list(dict.fromkeys(found))


def look_at(names: list[tuple[str, int]]) -> list[Peer]:
    """Look at all hosts at the same time, for `RESOLVE_SECONDS` and then twice `SECONDS` at most."""
    peers = [Peer(name, port) for name, port in names]
    for peer, done in zip(peers, together([partial(_resolve, peer) for peer in peers], RESOLVE_SECONDS), strict=True):
        if not done:
            peer.unresolved = f"the resolver gives no answer within {RESOLVE_SECONDS:g} s"
    known = [peer for peer in peers if not peer.unresolved]
    together([partial(_reach, peer) for peer in known], SECONDS + 0.5)
    together([partial(_reach_other, peer) for peer in known], SECONDS + 0.5)
    return peers


def _resolve(peer: Peer) -> bool:
    try:
        found = socket.getaddrinfo(peer.name, peer.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        peer.unresolved = one_line(reason_of(error))
        return True
    peer.addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
    peer.route = route_to(peer.addresses[0], peer.port)
    return True


def _reach(peer: Peer) -> None:
    """Connect to the port."""
    peer.state, peer.why = _connect(peer.addresses[0], peer.port)


def _reach_other(peer: Peer) -> None:
    """Connect to a port that stands for those that Gloo and NCCL choose."""
    peer.other_ports, _ = _connect(peer.addresses[0], ANY_PORT)


def _connect(address: str, port: int) -> tuple[str, str]:
    """Connect, and tell the ways apart in which that fails; wait the full timeout while ARP resolves."""
    try:
        socket.create_connection((address, port), SECONDS).close()
    except TimeoutError:
        return FILTERED, f"no answer within {SECONDS:g} s"
    except OSError as error:
        kinds = {errno.ECONNREFUSED: CLOSED, errno.EHOSTUNREACH: ABSENT, errno.ENETUNREACH: NO_ROUTE}
        return kinds.get(error.errno or 0, FILTERED), one_line(reason_of(error))
    return OPEN, ""


def together(questions: Sequence[Callable[[], Answer]], seconds: float) -> list[Answer | None]:
    """Return what each function returns, None for one that takes longer; what one raises is raised here.

    A function that hangs, for example in the resolver, is left alone: its thread does not keep the process alive.
    """
    answers: list[Answer | None] = [None] * len(questions)
    errors: list[BaseException] = []

    def put(number: int, question: Callable[[], Answer]) -> None:
        try:
            answers[number] = question()
        except BaseException as error:  # noqa: BLE001 - raised below, in the thread that asks
            errors.append(error)

    threads = [threading.Thread(target=put, args=numbered, daemon=True) for numbered in enumerate(questions)]
    for thread in threads:
        thread.start()
    deadline = clock.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - clock.monotonic()))
    if errors:
        raise errors[0]
    return list(answers)
