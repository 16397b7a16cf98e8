"""Facts are gathered once, all at the same time and for a bounded time; the checks are functions over them."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.targets.ssh.preflight import Verdict
from runner.tools.doctor import cluster, engine, inside, slurm
from runner.tools.doctor import peers as hosts
from runner.tools.doctor.finding import OK, STATES, Finding, count_states, ok, wrong
from runner.tools.doctor.gpus import check_gpus
from runner.tools.doctor.machine import check_folder, check_machine, check_versions
from runner.tools.doctor.network import check_peers, check_variables
from runner.tools.doctor.peers import together

SECONDS = 12.0
"""All questions together, hosts by SSH aside; what has not answered by then is a finding."""
SSH_SECONDS = 60.0
"""Timeout for SSH checks: 18 s per host, 11 s more if a stale connection must be reopened."""


@dataclass(frozen=True)
class Request:
    """What is to be examined."""

    target: str
    options: Any
    device: str
    """`cpu`, `cuda`, or `auto`: GPUs are looked at if there are any."""
    results: Path
    peers: list[tuple[str, int]]
    port: int
    image: str
    """That of the project's settings, without a tag."""


def examine(request: Request) -> list[Finding]:
    """Examine this machine, the target and the peers; nothing that was started is left behind."""
    container = engine.Container()
    chosen = "cuda" if request.device == "cuda" else "cpu"
    questions: dict[str, Callable[[], Any]] = {
        "here": partial(inside.gather, str(request.results)),
        "peers": partial(hosts.look_at, request.peers),
    }
    if request.target == "compose":
        questions["engine"] = partial(engine.gather, request.options, chosen, container, request.image)
    if request.target == "kubernetes":
        questions["cluster"] = partial(cluster.gather, request.options)
    if request.target == "slurm":
        questions["slurm"] = partial(slurm.gather, request.options.partition)
    seconds = SECONDS
    if request.target == "ssh":
        seconds = SSH_SECONDS
        questions["hosts"] = partial(_verdicts, request.options, chosen)
    try:
        facts = dict(zip(questions, together(list(questions.values()), seconds), strict=True))
    finally:
        container.remove()
    return _check(request, facts, chosen, seconds)


def _check(request: Request, facts: dict[str, Any], device: str, seconds: float) -> list[Finding]:
    here = facts["here"] or {}
    where = one_line(here.get("host") or "this machine", 60)
    mends = {"engine": "docker info, docker ps", "cluster": "kubectl cluster-info", "peers": "getent hosts HOST"}
    mends |= {"hosts": "ssh HOST true, for each host", "slurm": "scontrol ping"}
    mends["here"] = "df: a folder on a network disk that does not answer?"
    silent = [name for name, answered in facts.items() if answered is None and name in mends]
    found = [wrong(name, where, f"no answer within {seconds:g} s", mends[name]) for name in silent]
    if facts["here"] is None:
        return found
    found += _check_here(request, facts, where)
    if facts.get("engine"):
        found += engine.check(facts["engine"], here, where, device)
    if facts.get("cluster"):
        found += cluster.check(facts["cluster"], where, request.options, device, request.image)
    if facts.get("slurm"):
        found += slurm.check(facts["slurm"], where)
    if facts.get("hosts"):
        found += _check_hosts(facts["hosts"], where)
    if facts["peers"]:
        found += [*check_peers(facts["peers"], here, where), _check_port(request.port, where)]
    return found


def _check_here(request: Request, facts: dict[str, Any], where: str) -> list[Finding]:
    """Check this machine, as far as programs run on it: by target local, or as a node by hand."""
    here = facts["here"]
    if request.target != "local" and not request.peers:
        return [ok("python", where, f"Python {here['python']}"), *check_folder(here, where)]
    found = [*check_versions(here, where), *check_gpus(here, where, device=request.device)]
    found += check_machine(here, where, shm_mend="mount -o remount,size=1g /dev/shm")
    if not request.peers:
        found += check_variables(here, where, [])
    return found + check_folder(here, where)


def _is_in_use(port: int) -> bool:
    import psutil  # imported on use

    sockets = psutil.net_connections("tcp")
    return any(one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port for one in sockets)


def _check_port(port: int, where: str) -> Finding:
    """Look whether node 0 could listen here; its own peers are not told of it."""
    if _is_in_use(port):
        mend = f"`ss -ltnp 'sport = :{port}'` shows which; end it, or let another machine be node 0"
        return wrong("own-port", where, f"port {port} of this machine is in use: node 0 could not listen there", mend)
    return ok("own-port", where, f"port {port} of this machine is free for node 0")


def report(request: Request, findings: list[Finding]) -> dict[str, Any]:
    """Describe an examination as JSON has it."""
    return {
        "target": request.target,
        "device": request.device,
        "state": max((finding.state for finding in findings), key=STATES.index, default=OK),
        "counts": count_states(findings),
        "findings": [asdict(finding) | {"mend": finding.mend or None} for finding in findings],
    }


def _verdicts(options: Any, device: str) -> list[Verdict] | str:
    """Look at all hosts of target ssh at the same time; a line that says why that is impossible, if it is."""
    from runner.targets.ssh.target import Ssh  # imported on use

    try:
        return Ssh(options).examine(device)
    except RequestError as error:
        return str(error)


def _check_hosts(found: list[Verdict] | str, where: str) -> list[Finding]:
    """Report the verdicts of target ssh as findings."""
    if isinstance(found, str):
        return [wrong("ssh", where, found, "runner targets ssh lists the options")]
    findings = []
    for verdict in found:
        look = f"ssh {verdict.host} true shows whether ssh itself reaches it" if verdict.state != OK else ""
        findings.append(Finding(verdict.check, verdict.state, verdict.host, verdict.seen, verdict.mend or look))
    return findings
