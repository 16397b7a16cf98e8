"""Checks of the other hosts of a run, made from this machine: names, routes, ports and interfaces."""

import errno
import re
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from runner.core import clock
from runner.core.errors import RequestError, reason_of
from runner.core.network import GLOO, NCCL, Route, is_loopback, route_to, variables_for
from runner.core.text import listed, one_line, shown
from runner.tools.doctor import inside
from runner.tools.doctor.findings import Finding, ok, warning, wrong

SECONDS = 3.0
"""Timeout of a connection attempt."""
RESOLVE_SECONDS = 5.0
OPEN, CLOSED, FILTERED, ABSENT, NO_ROUTE = "open", "closed", "filtered", "absent", "no route"
ANY_PORT = 47_591
"""A port in Linux' ephemeral range, tried in place of the random ports of Gloo and NCCL."""
_PEER = re.compile(
    r"\[([\w:.%]+)\](?::(\d{1,5}))?|([\w:.%]*:[\w:.%]*:[\w:.%]*)()|(\w[\w.-]{0,252})(?::(\d{1,5}))?", re.ASCII
)
"""An address in brackets, an IPv6 address without a port, or a name."""
Answer = TypeVar("Answer")


@dataclass
class Peer:
    """Another host of a run, and what this machine found out about it."""

    name: str
    port: int
    addresses: list[str] = field(default_factory=list)
    unresolved: str = ""
    """Why the name does not resolve."""
    route: Route | None = None
    state: str = ""
    """State of the port: `open`, `closed` (refused), `filtered` (no answer), `absent` (no such host) or `no route`."""
    other_ports: str = ""
    """State of `ANY_PORT`."""
    why: str = ""

    @property
    def is_here(self) -> bool:
        """Whether all addresses of the host are loopback addresses."""
        return bool(self.addresses) and all(is_loopback(address) for address in self.addresses)


def parse(words: str, port: int) -> list[tuple[str, int]]:
    """Parse `host1,host2:port,[address]:port` into names and ports. Raises RequestError for an invalid host."""
    hosts = []
    for word in words.split(","):
        match = _PEER.fullmatch(word.strip())
        place, own_port = [*filter(None, match.groups()), ""][:2] if match else ("", "")
        if not place or int(own_port or port) not in range(1, 65_536):
            raise RequestError(f"--peers: {shown(word)} is not a host: write for example host1,10.0.0.2,host3:29500")
        hosts.append((place, int(own_port or port)))
    return list(dict.fromkeys(hosts))


def check_peers(names: list[tuple[str, int]], where: str) -> list[Finding]:
    """Check all hosts at once. Names take at most `RESOLVE_SECONDS`, then ports take at most `2 * SECONDS + 1`."""
    peers = [Peer(name, port) for name, port in names]
    for peer, done in zip(peers, together([partial(_resolve, peer) for peer in peers], RESOLVE_SECONDS), strict=True):
        if not done:
            peer.unresolved = f"the resolver did not answer within {RESOLVE_SECONDS:g} s"
    together([partial(_reach, peer) for peer in peers if not peer.unresolved], 2 * SECONDS + 1)
    findings = [finding for peer in peers for finding in _check_peer(peer)]
    here, used = inside.network(), sorted({peer.route.interface for peer in peers if peer.route and not peer.is_here})
    if len(used) > 1:
        seen = f"the peers are reached through several interfaces: {', '.join(used)}"
        mend = "give the peers' addresses in one network: Gloo and NCCL use one interface for all"
        findings.append(warning("interface", where, seen, mend))
    if used and not here["variables"][GLOO]:
        findings.append(_check_own_name(here, where, used[0]))
    return [*findings, *check_variables(here, where, used)]


def _resolve(peer: Peer) -> bool:
    try:
        infos = socket.getaddrinfo(peer.name, peer.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        peer.unresolved = one_line(reason_of(error))
        return True
    peer.addresses = list(dict.fromkeys(str(info[4][0]) for info in infos))
    peer.route = route_to(peer.addresses[0], peer.port)
    return True


def _reach(peer: Peer) -> None:
    peer.state, peer.why = _connect(peer.addresses[0], peer.port)
    peer.other_ports, _ = _connect(peer.addresses[0], ANY_PORT)


def _connect(address: str, port: int) -> tuple[str, str]:
    """Return a port's state and the reason. If ARP finds no host, this may take the whole timeout."""
    try:
        socket.create_connection((address, port), SECONDS).close()
    except TimeoutError:
        return FILTERED, f"no answer within {SECONDS:g} s"
    except OSError as error:
        kinds = {errno.ECONNREFUSED: CLOSED, errno.EHOSTUNREACH: ABSENT, errno.ENETUNREACH: NO_ROUTE}
        return kinds.get(error.errno or 0, FILTERED), one_line(reason_of(error))
    return OPEN, ""


def together(questions: Sequence[Callable[[], Answer]], seconds: float) -> list[Answer | None]:
    """Call functions in parallel and return their results. A result that is missing after `seconds` is None.

    Exceptions are raised again in the caller's thread. A function that hangs, for example in the resolver, is left
    running in its daemon thread.
    """
    answers: list[Answer | None] = [None] * len(questions)
    errors: list[BaseException] = []

    def put(number: int, question: Callable[[], Answer]) -> None:
        try:
            answers[number] = question()
        except BaseException as error:  # noqa: BLE001 - raised again below
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


def _check_peer(peer: Peer) -> list[Finding]:
    if peer.unresolved:
        mend = f"add its address to /etc/hosts, or use the address; check with `getent hosts {peer.name}`"
        return [wrong("name", peer.name, f"the name does not resolve: {peer.unresolved}", mend)]
    address = peer.addresses[0]
    if peer.is_here:
        if peer.name == "localhost" or is_loopback(peer.name):
            return [ok("route", peer.name, "this machine itself")]
        seen = f"the name resolves to {address}, a loopback address: each node would connect to itself"
        return [wrong("name", peer.name, seen, f"give {peer.name} its network address in /etc/hosts")]
    if peer.route is None or peer.state == NO_ROUTE:
        mend = f"`ip route get {address}` shows the route; connect this machine to that network, or use another address"
        return [wrong("route", peer.name, f"there is no route to {address}", mend)]
    settings = " ".join(f"{name}={value}" for name, value in variables_for(peer.route.interface).items())
    seen = f"{address} is reached through {peer.route.interface} from {peer.route.local}: {settings}"
    return [ok("route", peer.name, seen), _check_port(peer)]


def _check_port(peer: Peer) -> Finding:
    address, port = peer.addresses[0], peer.port
    firewall = f"allow all TCP between the nodes, for example with nft or ufw on {peer.name}"
    if peer.state == ABSENT:
        mend = f"is {peer.name} up? `ip neigh` shows who answers; is {address} still its address?"
        return wrong("port", peer.name, f"no host answers at {address}: {peer.why}", mend)
    if peer.state == FILTERED:
        what = f"port {port} is filtered: {peer.why}"
        if peer.other_ports in (OPEN, CLOSED):
            seen = f"{what}, while other ports answer: a firewall drops it"
        else:
            seen = f"{what}, nor on other ports: a firewall drops everything, or the host is down"
        return wrong("port", peer.name, seen, firewall)
    if peer.other_ports == FILTERED:
        seen = f"port {port} answers, other ports are filtered: Gloo and NCCL connect on random ports"
        return wrong("port", peer.name, seen, firewall)
    if peer.state == CLOSED:
        return ok("port", peer.name, f"the host answers; nothing listens on port {port} yet, as usual before a run")
    return ok("port", peer.name, f"port {port} is open")


def _check_own_name(here: dict[str, Any], where: str, interface: str) -> Finding:
    addresses, name = here["own_addresses"], here["host"]
    if not addresses:
        mend = f"add the line '<address> {name}' to /etc/hosts, or export {GLOO}={interface}"
        return wrong("own-name", where, f"this machine's host name {name} does not resolve", mend)
    if all(is_loopback(address) for address in addresses):
        seen = f"this machine's host name {name} resolves to {addresses[0]}: other nodes would connect to themselves"
        mend = f"give {name} the address of {interface} in /etc/hosts, or, as runner node does,"
        return wrong("own-name", where, seen, f"{mend} export {GLOO}={interface}")
    return ok("own-name", where, f"this machine's host name {name} resolves to {listed(addresses, most=3)}")


def check_variables(here: dict[str, Any], where: str, used: list[str]) -> list[Finding]:
    """Check that Gloo's and NCCL's variables choose an interface that exists and reaches the peers.

    `used` lists the interfaces that reach the peers.
    """
    findings = []
    names = [*here["interfaces"], "lo"]
    for variable in (GLOO, NCCL):
        value = here["variables"][variable]
        if not value:
            continue
        chosen, right = chosen_by(variable, value, names), variables_for(used[0])[variable] if used else ""
        mend = f"export {variable}={right}" if right else f"unset {variable}; interfaces here: {listed(names)}"
        if not chosen:
            findings.append(wrong("interface", where, f"{variable}={value} chooses no interface of this machine", mend))
        elif used and not set(chosen) & set(used):
            seen = f"{variable}={value} chooses {', '.join(chosen)}, but peers are reached through {', '.join(used)}"
            findings.append(wrong("interface", where, seen, mend))
        else:
            findings.append(ok("interface", where, f"{variable}={value} chooses {listed(chosen)}"))
    return findings


def chosen_by(variable: str, value: str, names: list[str]) -> list[str]:
    """Return the interfaces in `names` that a value of `GLOO_SOCKET_IFNAME` or `NCCL_SOCKET_IFNAME` chooses."""
    if variable == GLOO:
        return [name for name in value.split(",") if name in names]
    others, value = value.startswith("^"), value.removeprefix("^")
    exact, value = value.startswith("="), value.removeprefix("=")
    words = [word for word in value.split(",") if word]
    return [
        name for name in names if any(name == word if exact else name.startswith(word) for word in words) is not others
    ]
