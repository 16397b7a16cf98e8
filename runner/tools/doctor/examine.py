"""Runs all checks of `runner doctor` at once, with a time limit."""

import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.tools.doctor import inside
from runner.tools.doctor.cluster import check_cluster
from runner.tools.doctor.container import Container, check_engine
from runner.tools.doctor.findings import OK, STATES, Finding, ok, wrong
from runner.tools.doctor.machine import check_folder, check_gpus, check_machine, check_versions
from runner.tools.doctor.peers import check_peers, check_variables, together
from runner.tools.doctor.slurm import check_slurm

SECONDS = 12.0
"""Time limit for all checks together, except with target ssh. A check without an answer by then becomes a finding."""
SSH_SECONDS = 60.0
"""Timeout for SSH checks: 18 s per host, 11 s more if a stale connection must be reopened."""
_MENDS = {
    "here": "df: does a network disk hang?",
    "peers": "getent hosts HOST",
    "compose": "docker info, docker ps",
    "kubernetes": "kubectl cluster-info",
    "slurm": "scontrol ping",
    "ssh": "ssh HOST true, for each host",
}


@dataclass(frozen=True)
class Request:
    """The target and peers to examine. `image` is the project's image name without a tag.

    `device` is `cpu`, `cuda`, or `auto` (check GPUs if there are any).
    """

    target: str
    options: Any
    device: str
    results: Path
    peers: list[tuple[str, int]]
    port: int
    image: str


def examine(request: Request) -> list[Finding]:
    """Check this machine, the target and the peers. At the end, remove the container that a check started."""
    where, options = one_line(socket.gethostname(), 60), request.options
    device = "cuda" if request.device == "cuda" else "cpu"
    container = Container()
    looks: dict[str, Callable[[], list[Finding]]] = {"here": partial(_check_here, request, where)}
    if request.target == "compose":
        looks["compose"] = partial(check_engine, options, device, container, request.image, where)
    if request.target == "kubernetes":
        looks["kubernetes"] = partial(check_cluster, options, device, request.image, where)
    if request.target == "slurm":
        looks["slurm"] = partial(check_slurm, options.partition, where)
    if request.target == "ssh":
        looks["ssh"] = partial(_check_hosts, options, device, where)
    if request.peers:
        looks["peers"] = partial(check_peers, request.peers, where)
    seconds = SSH_SECONDS if request.target == "ssh" else SECONDS
    findings: list[Finding] = []
    try:
        for name, answer in zip(looks, together(list(looks.values()), seconds), strict=True):
            silent = wrong(name, where, f"no answer within {seconds:g} s", _MENDS[name])
            findings += [silent] if answer is None else answer
    finally:
        container.remove()
    return [*findings, _check_port(request.port, where)] if request.peers else findings


def _check_here(request: Request, where: str) -> list[Finding]:
    """Check everything on this machine if it is to run a node: if the target is local, or peers are given.

    Otherwise, check only Python and the disk.
    """
    facts = inside.gather(str(request.results))
    if request.target != "local" and not request.peers:
        return [ok("python", where, f"Python {facts['python']}"), check_folder(facts, where)]
    findings = [*check_versions(facts, where), *check_gpus(facts, where, device=request.device)]
    findings += check_machine(facts, where, shm_mend="mount -o remount,size=1g /dev/shm")
    if not request.peers:
        findings += check_variables(facts, where, [])
    return [*findings, check_folder(facts, where)]


def _check_port(port: int, where: str) -> Finding:
    import psutil

    sockets = psutil.net_connections("tcp")
    if any(one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port for one in sockets):
        mend = f"`ss -ltnp 'sport = :{port}'` shows the process; end it, or make another machine node 0"
        return wrong("own-port", where, f"port {port} of this machine is in use: node 0 could not listen there", mend)
    return ok("own-port", where, f"port {port} of this machine is free for node 0")


def _check_hosts(options: Any, device: str, where: str) -> list[Finding]:
    from runner.targets.ssh.target import Ssh

    try:
        verdicts = Ssh(options).examine(device)
    except RequestError as error:
        return [wrong("ssh", where, str(error), "runner targets ssh lists the options")]
    return [
        Finding(
            *(verdict.check, verdict.state, verdict.host, verdict.seen),
            verdict.mend or ("" if verdict.state == OK else f"ssh {verdict.host} true shows whether ssh reaches it"),
        )
        for verdict in verdicts
    ]


def count_states(findings: list[Finding]) -> dict[str, int]:
    """Return the number of findings in each state."""
    return {state: sum(finding.state == state for finding in findings) for state in STATES}


def report(request: Request, findings: list[Finding]) -> dict[str, Any]:
    """Return the JSON report of an examination."""
    return {
        "target": request.target,
        "device": request.device,
        "state": max((finding.state for finding in findings), key=STATES.index, default=OK),
        "counts": count_states(findings),
        "findings": [asdict(finding) | {"mend": finding.mend or None} for finding in findings],
    }
