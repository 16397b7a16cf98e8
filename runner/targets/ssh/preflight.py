"""What is looked at on every host before anything is started anywhere; a finding is one line with the host's name."""

from __future__ import annotations

import ipaddress
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from runner.core.errors import RequestError
from runner.core.network import is_loopback
from runner.core.text import listed, one_line
from runner.targets.ssh.session import HostError, Session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from runner.targets.ssh.hosts import Host
    from runner.targets.ssh.openssh import OpenSsh

MOST_AT_ONCE = 16
OLDEST_PYTHON = (3, 10)
MOST_SKEW_SECONDS = 2.0
"""Events of different hosts are compared by their clocks; NTP keeps these within milliseconds."""
SPARE_BYTES = 64 * 2**20
"""Room that a host needs beside what is brought, for what the run prints."""
_One = TypeVar("_One")
_Got = TypeVar("_Got")


@dataclass(frozen=True)
class Need:
    """What a run needs of its hosts.

    Attributes:
        python: the Python there.
        torch: the version that has to be there; empty for any, if all have the same.
        folder: where the kit's files are put; empty for the cache of the user there.
        data: the folder of prepared data there; empty for what is brought.
        network: the network in which the hosts reach each other; empty for that of the connection.
        port: the port of the rendezvous, 0 for a free one.
        bytes: how much is brought.
        gpus: GPUs that each host needs.
    """

    python: str
    torch: str
    folder: str
    data: str
    network: str
    port: int
    bytes: int
    gpus: Sequence[int]


@dataclass(frozen=True)
class Facts:
    """What a host said: its own name, where the kit's files are, its address for the others, and its versions."""

    host: str
    machine: str
    folder: str
    address: str
    interface: str
    python: str
    torch: str

    @property
    def place(self) -> dict[str, Any]:
        """What the record says of where a node ran."""
        return {
            "host": self.host,
            "machine": self.machine,
            "address": self.address,
            "interface": self.interface,
            "python": self.python,
            "torch": self.torch,
        }


def check(ssh: OpenSsh, hosts: Sequence[Host], need: Need) -> list[Facts]:
    """Look at all hosts at once; RequestError names each one that is not fit, and what mends it."""
    with ExitStack() as stack:
        sessions = _on_all(lambda host: Session(ssh, host.name, need.python), hosts)
        for session in sessions:
            stack.enter_context(session)
        numbered = list(enumerate(sessions))
        facts = _on_all(lambda one: _facts(one[1], one[0], need), numbered)
        _compare(facts, need)
        if len(hosts) > 1:
            _connect(sessions, facts, need)
        elif need.port:
            _on_all(lambda one: _listen(one, "127.0.0.1", need.port), sessions)
    return facts


def on_all(do: Callable[[_One], _Got], items: Sequence[_One]) -> list[_Got]:
    """Do something on all hosts at once; HostError with the first line of each that failed."""
    with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
        futures = [pool.submit(do, item) for item in items]
        errors = [error for one in futures if (error := one.exception()) is not None]
        if errors:
            for one in futures:
                if one.exception() is None and isinstance(got := one.result(), Session):
                    got.close()
            unknown = next((error for error in errors if not isinstance(error, OSError)), None)
            raise unknown or HostError(listed(dict.fromkeys(map(str, errors)), "; "))
        return [one.result() for one in futures]


def _on_all(do: Callable[[_One], _Got], items: Sequence[_One]) -> list[_Got]:
    try:
        return on_all(do, items)
    except HostError as error:
        raise RequestError(str(error)) from None


def _facts(session: Session, node: int, need: Need) -> Facts:
    """Ask a host for its facts, and judge those that concern it alone."""
    host = session.host
    asked = time.time()
    said = session.ask("check", folder=need.folder, data=need.data)
    answered = time.time()
    python, torch = _text(said, "python"), _text(said, "torch")
    numbers = tuple(int(word) for word in python.split(".") if word.isdigit())
    if numbers < OLDEST_PYTHON:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        raise HostError(f"host {host}: {need.python} is Python {python}, {wanted} is the oldest that the kit runs on")
    if not torch:
        way = "install it there, or name another Python with --with python=PATH"
        raise HostError(f"host {host}: torch is not installed for {need.python}: {way}")
    skew = _skew(_number(said, "time"), asked, answered)
    if abs(skew) > MOST_SKEW_SECONDS:
        side = "ahead of" if skew > 0 else "behind"
        raise HostError(
            f"host {host}: its clock is {abs(skew):,.0f} s {side} this machine's: set it, for example by NTP"
        )
    free, folder = _number(said, "free_bytes"), _text(said, "folder")
    if free < need.bytes + SPARE_BYTES:
        megabytes = f"{free / 1e6:,.0f} MB free in {folder}, the run needs {(need.bytes + SPARE_BYTES) / 1e6:,.0f} MB"
        raise HostError(f"host {host}: {megabytes}: make room, or name another folder with --with folder=PATH")
    if need.data and said.get("has_data") is not True:
        raise HostError(f"host {host}: there is no folder {need.data}: prepare the data there, or leave data= out")
    if need.gpus and _number(said, "gpus") < need.gpus[node]:
        gpus = f"{_number(said, 'gpus'):.0f} GPUs, the layout needs {need.gpus[node]} there"
        raise HostError(f"host {host}: {gpus}: choose a smaller one, or --device cpu")
    address, interface = _address(host, said, need.network)
    return Facts(host, _text(said, "host"), folder, address, interface, python, torch)


def _skew(there: float, asked: float, answered: float) -> float:
    """Return how far a clock is ahead, in seconds, given when it was asked and when the answer came."""
    return there - answered if there > answered else min(0.0, there - asked)


def _address(host: str, said: dict[str, Any], network: str) -> tuple[str, str]:
    """Choose the address by which the others reach a host, with its interface."""
    given = said.get("addresses")
    known = {
        str(one[0]): str(one[1])
        for one in (given if isinstance(given, list) else [])
        if isinstance(one, list) and len(one) > 1
    }
    address = _text(said, "address")
    if network:
        inside = [one for one in known if ipaddress.ip_address(one) in ipaddress.ip_network(network, strict=False)]
        if not inside:
            held = listed(one for one in known if not is_loopback(one)) or "none"
            raise HostError(f"host {host}: it has no address in network {network}; it has {held}")
        address = inside[0]
    return address, known.get(address, "")


def _compare(facts: Sequence[Facts], need: Need) -> None:
    """Compare what has to be the same everywhere."""
    first = facts[0]
    wrong = [one for one in facts if need.torch and one.torch != need.torch]
    if wrong:
        each = f"torch {wrong[0].torch}, this machine has {need.torch}"
        msg = f"host {wrong[0].host}: {each}: install the same, or name another Python with --with python=PATH"
        raise RequestError(one_line(msg))
    for one in facts[1:]:
        if one.torch != first.torch:
            msg = f"host {one.host}: torch {one.torch}, {first.host} has {first.torch}: install the same on all hosts"
            raise RequestError(one_line(msg))


def _connect(sessions: Sequence[Session], facts: Sequence[Facts], need: Need) -> None:
    """Let every host connect to every other one."""
    way = "name the hosts by addresses of a network that they share, or choose it with --with network=10.0.0.0/8"
    for one in facts:
        if not one.interface or is_loopback(one.address):
            place = one.address or "an address that it does not know"
            msg = f"host {one.host}: it was reached at {place}, where the other hosts cannot reach it: {way}"
            raise RequestError(one_line(msg))
    numbers = range(len(sessions))
    ports = _on_all(lambda one: _listen(sessions[one], facts[one].address, 0 if one else need.port), numbers)

    def reach_others(own: int) -> None:
        for other in numbers:
            if other == own:
                continue
            place = {"address": facts[other].address, "port": ports[other]}
            if trouble := _text(sessions[own].ask("reach", **place), "trouble"):
                where = f"{facts[other].host} at {place['address']}, port {place['port']}"
                let = "let the hosts reach each other on all ports, or choose another network with --with network="
                raise HostError(f"host {facts[own].host}: it does not reach {where}: {trouble}: {let}")

    _on_all(reach_others, numbers)


def _listen(session: Session, address: str, port: int) -> int:
    try:
        return int(_number(session.ask("listen", address=address, port=port), "port"))
    except HostError as error:
        if not port:
            raise
        msg = f"{error}: port {port} of {address} cannot be used for the rendezvous: choose another --with port=, or 0"
        raise HostError(msg) from None


def _text(said: dict[str, Any], name: str) -> str:
    """Return a text that a host said."""
    return one_line(said[name], 1_000) if isinstance(said.get(name), str) else ""


def _number(said: dict[str, Any], name: str) -> float:
    with suppress(TypeError, ValueError, OverflowError):
        return float(said.get(name, 0))
    return 0.0
