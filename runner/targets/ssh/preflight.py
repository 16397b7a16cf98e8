"""What is looked at on every host before anything is started anywhere; a finding is one line with the host's name."""

import ipaddress
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from runner.core import clock
from runner.core.errors import RequestError
from runner.core.network import is_loopback
from runner.core.text import listed, one_line
from runner.targets.ssh.hosts import Host
from runner.targets.ssh.openssh import HostError, OpenSsh
from runner.targets.ssh.session import PYTHON_WAY, Session, attempt, connect

OK, WARNING, WRONG = "ok", "warning", "wrong"
_MOST_SKEW_SECONDS = 2.0
"""Events of different hosts are compared by their clocks; NTP keeps these within milliseconds."""
_GOOD_SKEW_SECONDS = 0.5
_SPARE_BYTES = 64 * 2**20
"""Room that a host needs beside what is brought, for what the run prints."""
_GOOD_BYTES = 2**30


@dataclass(frozen=True)
class Need:
    """What a run needs of its hosts."""

    python: str
    torch: str
    """The version that has to be there; empty for any, if all have the same."""
    folder: str
    """Where the kit's files are put; empty for the cache of the user there."""
    data: str
    """The folder of prepared data there; empty for what is brought."""
    network: str
    """The network in which the hosts reach each other; empty for that of the connection."""
    port: int
    """The port of the rendezvous, 0 for a free one."""
    bytes: int = 0
    """How much is brought."""
    gpus: Sequence[int] = ()
    """How many each host needs."""


@dataclass(frozen=True)
class Facts:
    """What a host said of itself, and the address and interface by which the others reach it."""

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
        names = ("host", "machine", "address", "interface", "python", "torch")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Verdict:
    """One thing about one host: what was seen, and what mends it."""

    host: str
    check: str
    state: str
    seen: str
    mend: str = ""

    @property
    def line(self) -> str:
        """All in one line."""
        return one_line(f"host {self.host}: {self.seen}{f': {self.mend}' if self.mend else ''}", 1_000)


class Examination:
    """All hosts of a run, looked at at once: what each said, by its number, and the verdicts on all.

    Before a start the kit's folder is made on them, and the first step that finds something wrong is the last one.
    """

    def __init__(self, ssh: OpenSsh, hosts: Sequence[Host], need: Need, *, before_start: bool) -> None:
        self.facts: dict[int, Facts] = {}
        self.verdicts: list[Verdict] = []
        self._ssh, self._hosts, self._need, self._before_start = ssh, hosts, need, before_start
        self._sessions: dict[int, Session] = {}
        self._ports: dict[int, int] = {}

    def run(self) -> None:
        """Look at one thing after the other."""
        try:
            for check, do, nodes in (
                ("ssh", self._connect, lambda: range(len(self._hosts))),
                ("folder", self._ask, lambda: self._sessions),
                ("versions", self._compare, lambda: self.facts),
                ("port", self._listen, self._listening),
                ("reach", self._reach, lambda: self._ports if len(self._hosts) > 1 else ()),
            ):
                self._each(check, do, sorted(nodes()))
                if self._before_start and any(verdict.state == WRONG for verdict in self.verdicts):
                    return
        finally:
            for session in self._sessions.values():
                session.close()

    def _each(self, check: str, do: Callable[[int], Iterable[Verdict]], nodes: Sequence[int]) -> None:
        """Do something with hosts, all at once, and keep its verdicts; where it fails, that is one."""
        for node, found in zip(nodes, attempt(lambda node: list(do(node)), nodes), strict=True):
            if isinstance(found, HostError):
                host = self._hosts[node].name
                seen = found.seen.removeprefix(f"host {host}: ")
                self.verdicts.append(Verdict(host, check, WRONG, seen, found.mend))
            else:
                self.verdicts += found

    def _connect(self, node: int) -> Iterator[Verdict]:
        name = self._hosts[node].name
        self._sessions[node] = connect(self._ssh, name, self._need.python)
        yield Verdict(name, "ssh", OK, "ssh reaches it")

    def _ask(self, node: int) -> Iterator[Verdict]:
        """Ask a host for its facts, and judge those that concern it alone."""
        need, began = self._need, clock.now()
        said = self._sessions[node].ask("check", folder=need.folder, data=need.data, make=self._before_start)
        skew = skew_of(said["time"], began, clock.now())
        self.facts[node] = facts_of(self._hosts[node].name, said, need.network)
        yield from judge(self.facts[node], said, skew, need, need.gpus[node] if need.gpus else 0)

    def _compare(self, node: int) -> Iterator[Verdict]:
        """Compare what has to be the same everywhere, and on this machine if `need.torch` is its version."""
        host = self.facts[node]
        first = next((self.facts[other] for other in sorted(self.facts) if self.facts[other].torch), host)
        if not host.torch:
            return
        if self._need.torch and host.torch != self._need.torch:
            seen = f"torch {host.torch}, this machine has {self._need.torch}"
            yield Verdict(host.host, "versions", WRONG, seen, f"install the same, or {PYTHON_WAY}")
        elif host.torch != first.torch:
            seen = f"torch {host.torch}, {first.host} has {first.torch}"
            yield Verdict(host.host, "versions", WRONG, seen, "install the same on all hosts")
        elif host.python.split(".")[:2] != first.python.split(".")[:2]:
            seen = f"Python {host.python}, {first.host} has {first.python}"
            yield Verdict(host.host, "versions", WARNING, seen, "install the same on all hosts")

    def _listening(self) -> Iterator[int]:
        """Yield the hosts that have an address on which the others may reach them; judge those addresses."""
        if len(self._hosts) == 1:
            yield from self.facts if self._need.port else ()
            return
        for node, facts in sorted(self.facts.items()):
            if not facts.address and self._need.network:
                continue
            if facts.interface and not is_loopback(facts.address):
                seen = f"the other hosts reach it at {facts.address}, interface {facts.interface}"
                self.verdicts.append(Verdict(facts.host, "interface", OK, seen))
                yield node
            else:
                place = facts.address or "an address that it does not know"
                seen = f"it was reached at {place}, where the other hosts cannot reach it"
                mend = "name the hosts by addresses of a network that they share, or choose it with --with network="
                self.verdicts.append(Verdict(facts.host, "interface", WRONG, seen, f"{mend}10.0.0.0/8"))

    def _listen(self, node: int) -> Iterable[Verdict]:
        """Let a host listen, the first one at the rendezvous's port."""
        address = "127.0.0.1" if len(self._hosts) == 1 else self.facts[node].address
        port = 0 if node else self._need.port
        try:
            said = self._sessions[node].ask("listen", address=address, port=port, accept=True)
        except HostError as error:
            if not port:
                raise
            seen = f"{error}: port {port} of {address} cannot be used for the rendezvous"
            raise HostError(seen, mend="choose another --with port=, or 0") from None
        self._ports[node] = said["port"]
        return ()

    def _reach(self, own: int) -> Iterator[Verdict]:
        """Let a host connect to every other one."""
        here, reaches = self.facts[own].host, 0
        for other in (node for node in sorted(self._ports) if node != own):
            facts, port = self.facts[other], self._ports[other]
            trouble = self._sessions[own].ask("reach", address=facts.address, port=port)["trouble"]
            reaches += not trouble
            if trouble:
                seen = f"it does not reach {facts.host} at {facts.address}, port {port}: {trouble}"
                mend = "let the hosts reach each other on all ports, or choose another network with --with network="
                yield Verdict(here, "reach", WRONG, seen, mend)
        if reaches == len(self._ports) - 1:
            yield Verdict(here, "reach", OK, f"it reaches the other {reaches}")


def check(ssh: OpenSsh, hosts: Sequence[Host], need: Need) -> list[Facts]:
    """Look at all hosts at once; RequestError names each one that is not fit, and what mends it."""
    found = Examination(ssh, hosts, need, before_start=True)
    found.run()
    first: dict[str, Verdict] = {}
    for verdict in found.verdicts:
        if verdict.state == WRONG:
            first.setdefault(verdict.host, verdict)
    if first:
        raise RequestError(listed((verdict.line for verdict in first.values()), "; "))
    return [found.facts[node] for node in sorted(found.facts)]


def facts_of(host: str, said: dict[str, Any], network: str) -> Facts:
    """Take what a host said, and choose the address by which the others reach it."""
    known, address = dict(said["addresses"]), said["address"]
    if network:
        wanted = ipaddress.ip_network(network, strict=False)
        address = next((candidate for candidate in known if ipaddress.ip_address(candidate) in wanted), "")
    return Facts(host, said["host"], said["folder"], address, known.get(address, ""), said["python"], said["torch"])


def judge(facts: Facts, said: dict[str, Any], skew: float, need: Need, gpus: int) -> Iterator[Verdict]:
    """Judge what concerns one host alone: what it said, its clock, and its GPUs."""
    yield Verdict(facts.host, "python", OK, f"Python {facts.python}")
    if facts.torch:
        yield Verdict(facts.host, "torch", OK, f"torch {facts.torch}")
    else:
        seen, mend = f"torch is not installed for {need.python}", f"install it there, or {PYTHON_WAY}"
        yield Verdict(facts.host, "torch", WRONG, seen, mend)
    if not said["rsync"]:
        yield Verdict(facts.host, "rsync", WRONG, "it has no rsync", "install it there")
    yield _judge_clock(facts.host, skew)
    yield _judge_disk(facts, said["free_bytes"], need)
    if need.data and not said["has_data"]:
        mend = "prepare the data there, or leave data= out"
        yield Verdict(facts.host, "data", WRONG, f"there is no folder {need.data}", mend)
    if gpus:
        held = f"{said['gpus']} GPUs"
        if said["gpus"] < gpus:
            mend = "choose a smaller one, or --device cpu"
            yield Verdict(facts.host, "gpus", WRONG, f"{held}, the layout needs {gpus} there", mend)
        else:
            yield Verdict(facts.host, "gpus", OK, held)
    if need.network and not facts.address:
        held = listed(address for address, _ in said["addresses"] if not is_loopback(address)) or "none"
        seen = f"it has no address in network {need.network}; it has {held}"
        yield Verdict(facts.host, "interface", WRONG, seen)


def skew_of(there: float, asked: float, answered: float) -> float:
    """Return how far a clock is ahead, in seconds, given when it was asked and when the answer came."""
    return there - answered if there > answered else min(0.0, there - asked)


def _judge_clock(host: str, skew: float) -> Verdict:
    side, far = "ahead of" if skew > 0 else "behind", abs(skew)
    mend = "set it, for example by NTP"
    if far > _MOST_SKEW_SECONDS:
        return Verdict(host, "clock", WRONG, f"its clock is {far:,.0f} s {side} this machine's", mend)
    if far > _GOOD_SKEW_SECONDS:
        return Verdict(host, "clock", WARNING, f"its clock is {far:.1f} s {side} this machine's", mend)
    return Verdict(host, "clock", OK, "its clock agrees with this machine's")


def _judge_disk(facts: Facts, free: float, need: Need) -> Verdict:
    wanted = need.bytes + _SPARE_BYTES
    seen = f"{free / 1e6:,.0f} MB free in {facts.folder}"
    mend = "make room, or name another folder with --with folder=PATH"
    if free < wanted:
        return Verdict(facts.host, "disk", WRONG, f"{seen}, the run needs {wanted / 1e6:,.0f} MB", mend)
    if free < _GOOD_BYTES:
        return Verdict(facts.host, "disk", WARNING, seen, mend)
    return Verdict(facts.host, "disk", OK, seen)
