"""What is right and wrong with the hosts of a run, judged by what each says of itself."""

import ipaddress
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from runner.core.network import is_loopback
from runner.core.text import listed, one_line

OK, WARNING, WRONG = "ok", "warning", "wrong"
OLDEST_PYTHON = (3, 10)
MOST_SKEW_SECONDS = 2.0
"""Events of different hosts are compared by their clocks; NTP keeps these within milliseconds."""
GOOD_SKEW_SECONDS = 0.5
SPARE_BYTES = 64 * 2**20
"""Room that a host needs beside what is brought, for what the run prints."""
GOOD_BYTES = 2**30
PYTHON_WAY = "name another Python with --with python=PATH"


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


class Answer(msgspec.Struct):
    """What a host says of itself (`host_facts.check`); the addresses with their interfaces."""

    host: str
    python: str
    torch: str
    time: float
    folder: str
    free_bytes: int
    address: str
    addresses: list[tuple[str, str]]
    has_data: bool
    gpus: int


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


def facts_of(host: str, said: Answer, network: str) -> Facts:
    """Take what a host said, and choose the address by which the others reach it."""
    known, address = dict(said.addresses), said.address
    if network:
        wanted = ipaddress.ip_network(network, strict=False)
        address = next((candidate for candidate in known if ipaddress.ip_address(candidate) in wanted), "")
    return Facts(host, said.host, said.folder, address, known.get(address, ""), said.python, said.torch)


def judge(facts: Facts, said: Answer, skew: float, need: Need, gpus: int) -> Iterator[Verdict]:
    """Judge what concerns one host alone: what it said, its clock, and its GPUs."""
    yield Verdict(facts.host, "python", OK, f"Python {facts.python}")
    if facts.torch:
        yield Verdict(facts.host, "torch", OK, f"torch {facts.torch}")
    else:
        seen, mend = f"torch is not installed for {need.python}", f"install it there, or {PYTHON_WAY}"
        yield Verdict(facts.host, "torch", WRONG, seen, mend)
    yield _judge_clock(facts.host, skew)
    yield _judge_disk(facts, said.free_bytes, need)
    if need.data and not said.has_data:
        mend = "prepare the data there, or leave data= out"
        yield Verdict(facts.host, "data", WRONG, f"there is no folder {need.data}", mend)
    if gpus:
        held = f"{said.gpus} GPUs"
        if said.gpus < gpus:
            mend = "choose a smaller one, or --device cpu"
            yield Verdict(facts.host, "gpus", WRONG, f"{held}, the layout needs {gpus} there", mend)
        else:
            yield Verdict(facts.host, "gpus", OK, held)
    if need.network and not facts.address:
        held = listed(address for address, _ in said.addresses if not is_loopback(address)) or "none"
        seen = f"it has no address in network {need.network}; it has {held}"
        yield Verdict(facts.host, "interface", WRONG, seen)


def judge_versions(facts: Sequence[Facts], torch: str) -> Iterator[Verdict]:
    """Compare what has to be the same everywhere, and on this machine if `torch` is its version."""
    first = next((host for host in facts if host.torch), None)
    for host in facts:
        if not host.torch or first is None:
            continue
        if torch and host.torch != torch:
            mend = "install the same, or name another Python with --with python=PATH"
            yield Verdict(host.host, "versions", WRONG, f"torch {host.torch}, this machine has {torch}", mend)
        elif host.torch != first.torch:
            seen = f"torch {host.torch}, {first.host} has {first.torch}"
            yield Verdict(host.host, "versions", WRONG, seen, "install the same on all hosts")
        elif host.python.split(".")[:2] != first.python.split(".")[:2]:
            seen = f"Python {host.python}, {first.host} has {first.python}"
            yield Verdict(host.host, "versions", WARNING, seen, "install the same on all hosts")


def judge_address(facts: Facts) -> Verdict:
    """Judge the address at which a host is to be reached by the others."""
    if facts.interface and not is_loopback(facts.address):
        seen = f"the other hosts reach it at {facts.address}, interface {facts.interface}"
        return Verdict(facts.host, "interface", OK, seen)
    place = facts.address or "an address that it does not know"
    seen = f"it was reached at {place}, where the other hosts cannot reach it"
    mend = "name the hosts by addresses of a network that they share, or choose it with --with network=10.0.0.0/8"
    return Verdict(facts.host, "interface", WRONG, seen, mend)


def skew_of(there: float, asked: float, answered: float) -> float:
    """Return how far a clock is ahead, in seconds, given when it was asked and when the answer came."""
    return there - answered if there > answered else min(0.0, there - asked)


def _judge_clock(host: str, skew: float) -> Verdict:
    side, far = "ahead of" if skew > 0 else "behind", abs(skew)
    mend = "set it, for example by NTP"
    if far > MOST_SKEW_SECONDS:
        return Verdict(host, "clock", WRONG, f"its clock is {far:,.0f} s {side} this machine's", mend)
    if far > GOOD_SKEW_SECONDS:
        return Verdict(host, "clock", WARNING, f"its clock is {far:.1f} s {side} this machine's", mend)
    return Verdict(host, "clock", OK, "its clock agrees with this machine's")


def _judge_disk(facts: Facts, free: float, need: Need) -> Verdict:
    wanted = need.bytes + SPARE_BYTES
    seen = f"{free / 1e6:,.0f} MB free in {facts.folder}"
    mend = "make room, or name another folder with --with folder=PATH"
    if free < wanted:
        return Verdict(facts.host, "disk", WRONG, f"{seen}, the run needs {wanted / 1e6:,.0f} MB", mend)
    if free < GOOD_BYTES:
        return Verdict(facts.host, "disk", WARNING, seen, mend)
    return Verdict(facts.host, "disk", OK, seen)
