"""Check all hosts before a run is started on any of them."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from runner.core import clock
from runner.core.errors import RequestError
from runner.core.network import is_loopback
from runner.core.text import listed, one_line
from runner.targets.ssh.openssh import HostError, OpenSsh, at_once

OK, WARNING, WRONG = "ok", "warning", "wrong"
Way = tuple[str, int]
"""Address and port at which a host listens for the other hosts."""
Facts = dict[str, Any]
"""The answer of `on_host.facts`, with the host's name and clock skew in seconds."""
_MOST_SKEW_SECONDS = 2.0
"""Largest difference of clocks that permits comparing events of hosts; NTP keeps clocks within milliseconds."""
_GOOD_SKEW_SECONDS = 0.5
_SPARE_BYTES = 64 * 2**20
"""Disk space for the output of a run, besides programs and data."""
_GOOD_BYTES = 2**30
_SAME = "install the same on all hosts, or name another Python with --with python=PATH"


@dataclass(frozen=True)
class Verdict:
    """The result of one check of one host; `mend` is the fix."""

    host: str
    check: str
    state: str
    seen: str
    mend: str = ""


def check(ssh: OpenSsh, hosts: Sequence[str], options: Any, size: int, gpus: Sequence[int]) -> list[Facts]:
    """Return the facts of all hosts. Raises RequestError that names each unsuitable host and the fix."""
    facts, verdicts = examine(ssh, hosts, options, size, gpus)
    wrong: dict[str, str] = {}
    for verdict in verdicts:
        if verdict.state == WRONG:
            mend = f": {verdict.mend}" if verdict.mend else ""
            wrong.setdefault(verdict.host, one_line(f"host {verdict.host}: {verdict.seen}{mend}", 1_000))
    if wrong:
        raise RequestError(listed(wrong.values(), "; "))
    return facts


def examine(
    ssh: OpenSsh, hosts: Sequence[str], options: Any, size: int, gpus: Sequence[int]
) -> tuple[list[Facts], list[Verdict]]:
    """Query all hosts in parallel, and let each host connect to the others. Nothing is changed on the hosts.

    `options` are the target's options. `size` is the number of bytes to send. `gpus` has the GPUs that each host needs.
    """
    if not shutil.which("rsync"):
        raise RequestError("rsync is not installed on this machine: install it")
    alone = len(hosts) == 1

    def ask(host: str) -> Facts:
        ssh.connect(host)  # first, so that connecting does not delay the clock comparison
        words = {"base": options.folder, "data": options.data, "network": options.network, "alone": alone}
        began = clock.now()
        said = ssh.ask(host, "facts", **words, port=options.port if host == hosts[0] else 0)
        # Do not count the duration of the question as skew.
        skew = max(0.0, said["times"][1] - clock.now()) or min(0.0, said["times"][0] - began)
        return {**said, "host": host, "skew": skew, "alone": alone}

    def reach(host: str) -> dict[str, str]:
        return dict(ssh.ask(host, "reach", places={other: way for other, way in ways.items() if other != host}))

    asked = at_once(ask, hosts)
    facts = [said for said in asked if not isinstance(said, HostError)]
    ways: dict[str, Way] = {said["host"]: (said["address"], said["listens"]) for said in facts if said["listens"]}
    troubles = dict(zip(ways, at_once(reach, ways), strict=True))
    verdicts: list[Verdict] = []
    for node, (host, said) in enumerate(zip(hosts, asked, strict=True)):
        if isinstance(said, HostError):
            verdicts.append(Verdict(host, "ssh", WRONG, said.seen.removeprefix(f"host {host}: "), said.mend))
            continue
        first = next((one for one in facts if one["torch"]), said)
        rows = _rows(said, first, options, size, gpus[node])
        verdicts += [Verdict(host, name, state, seen, "" if state == OK else mend) for name, state, seen, mend in rows]
        if host in ways and len(ways) > 1:
            verdicts += _reaches(host, ways, troubles[host])
    return facts, verdicts


def _rows(said: Facts, first: Facts, options: Any, size: int, gpus: int) -> list[tuple[str, str, str, str]]:
    python, torch, folder, free = said["python"], said["torch"], said["folder"], said["free_bytes"]
    other_torch = f", {first['host']} has {first['torch']}" if torch != first["torch"] else ""
    is_other_python = python.split(".")[:2] != first["python"].split(".")[:2]
    other_python = f", {first['host']} has {first['python']}" if is_other_python else ""
    skew, side = abs(said["skew"]), "ahead of" if said["skew"] > 0 else "behind"
    room, writes = size + _SPARE_BYTES, said["writable"]
    disk = f"{free / 1e6:,.0f} MB free in {folder}, the run needs {room / 1e6:,.0f} MB"
    where = f"its address is {said['address'] or 'unknown'}, interface {said['interface'] or 'unknown'}"
    if options.network and not said["address"]:
        others = [own for own in said["addresses"] if not is_loopback(own)]
        where = f"it has no address in network {options.network}; it has {listed(others)}"
    rows = [
        ("ssh", OK, "ssh reaches it", ""),
        ("python", _state(warning=is_other_python), f"Python {python}{other_python}", _SAME),
        ("torch", _state(not torch or bool(other_torch)), f"torch {torch or 'is not installed'}{other_torch}", _SAME),
        (
            "clock",
            _state(skew > _MOST_SKEW_SECONDS, warning=skew > _GOOD_SKEW_SECONDS),
            f"its clock is {skew:.1f} s {side} this machine's" if skew else "its clock agrees with this machine's",
            "set it, for example by NTP",
        ),
        (
            "disk",
            _state(free < room or not writes, warning=free < _GOOD_BYTES),
            disk if writes else f"{folder} cannot be written",
            "make room, or name another folder with --with folder=PATH",
        ),
    ]
    if not said["rsync"]:
        rows.append(("rsync", WRONG, "rsync is not installed", "install it there"))
    if options.data:
        seen = "it has the" if said["has_data"] else "it has no"
        mend = "prepare the data there, or omit data="
        rows.append(("data", _state(not said["has_data"]), f"{seen} folder {options.data}", mend))
    if gpus:
        seen = f"it has {said['gpus']} GPUs, and the layout needs {gpus} there"
        rows.append(("gpus", _state(said["gpus"] < gpus), seen, "choose a smaller layout, or --device cpu"))
    if not said["alone"]:
        mend = "name the hosts by addresses of a network that they share, or choose it with --with network=10.0.0.0/8"
        rows.append(("interface", _state(not said["interface"] or is_loopback(said["address"])), where, mend))
    if said["port_trouble"]:
        seen = f"port {options.port} of {said['address']} cannot be used: {said['port_trouble']}"
        rows.append(("port", WRONG, seen, "choose another --with port=, or 0"))
    return rows


def _reaches(host: str, ways: dict[str, Way], troubles: dict[str, str] | HostError) -> Iterator[Verdict]:
    if isinstance(troubles, HostError):
        yield Verdict(host, "reach", WRONG, troubles.seen, troubles.mend)
        return
    for other, trouble in troubles.items():
        if trouble:
            seen = f"it does not reach {other} at {ways[other][0]}, port {ways[other][1]}: {trouble}"
            mend = "let the hosts reach each other on all ports, or choose another network with --with network="
            yield Verdict(host, "reach", WRONG, seen, mend)
    if not any(troubles.values()):
        yield Verdict(host, "reach", OK, f"it reaches the other {len(troubles)}")


def _state(wrong: bool = False, *, warning: bool = False) -> str:
    return WRONG if wrong else WARNING if warning else OK
