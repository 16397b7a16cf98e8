"""Target `ssh`: one torchrun on each of several hosts, reached by OpenSSH."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from runner.core.errors import RequestError, reason_of
from runner.core.layout import Layout
from runner.core.text import one_line, shown
from runner.core.yaml_writer import to_json
from runner.definitions.plan import Run
from runner.records.folder import RunFolder
from runner.records.schema import BETWEEN_NODES
from runner.targets.base import LaunchSpec, Target, option
from runner.targets.ssh import cargo, preflight
from runner.targets.ssh.handle import SshHandle, end_remains, run_on_host
from runner.targets.ssh.openssh import OpenSsh
from runner.targets.ssh.preflight import Facts, Verdict
from runner.targets.torchrun import node_specs

_LINE = re.compile(
    r"\s*(?P<name>(?:[a-z0-9_][\w.+-]*@)?[a-z0-9_][\w.-]*)(?:\s+(?:slots=)?(?P<slots>[1-9][0-9]*))?\s*",
    re.ASCII | re.IGNORECASE,
)
"""A host or an alias of ssh's configuration, with or without a user: nothing that ssh or a shell takes for more."""


@dataclass(frozen=True)
class Options:
    """The options of target ssh; paths of a host are absolute, or below the home of the user there."""

    hosts: str = option("hosts as ssh knows them, separated by commas; the first one is node 0")
    hosts_file: str = option("file with a host on each line, and how many processes it has room for: h0 slots=4")
    config: str = option("configuration of ssh, as for ssh -F; by default the user's own")
    python: str = option("path of a Python with torch on the hosts; by default that of the runner's own")
    folder: str = option("folder of the hosts for what is brought; by default in ~/.cache")
    data: str = option("folder of the hosts with prepared data; by default this machine's is brought")
    network: str = option(
        "network in which the hosts reach each other, for example 10.1.0.0/16; by default ssh's", axis=BETWEEN_NODES
    )
    port: int = option("port of the rendezvous on the first host; 0 is a free one", 0)


@dataclass(frozen=True)
class SshSpec(LaunchSpec):
    """A run with the host of each node; addresses and ports are chosen at the start."""

    run: Run = field(kw_only=True, repr=False)
    hosts: list[str] = field(kw_only=True, default_factory=list)

    def text(self, run_id: str = "") -> str:
        """Return what is started where, as JSON."""
        nodes = [
            {"host": host, **({"run": run_on_host(run_id, number)} if run_id else {}), **asdict(node)}
            for number, (host, node) in enumerate(zip(self.hosts, self.nodes, strict=True))
        ]
        return to_json({"nodes": nodes, "cwd": self.cwd, "device": self.device, "options": self.options})


class Ssh(Target[SshSpec]):
    """Starts torchrun agents on hosts that are reached by SSH."""

    name: ClassVar[str] = "ssh"
    summary: ClassVar[str] = "hosts that you reach by SSH; one torchrun on each"
    observes: ClassVar[bool] = True
    Options: ClassVar[type] = Options

    def __init__(self, options: Any = None) -> None:
        """Read the names of the hosts; RequestError if there are none, or one that cannot be."""
        super().__init__(options)
        own = self.options
        if bool(own.hosts) == bool(own.hosts_file):
            raise RequestError("target ssh needs --with hosts=h0,h1 or hosts_file=FILE, not both")
        lines, where = own.hosts.split(","), "--with hosts"
        if own.hosts_file:
            where = one_line(own.hosts_file)
            try:
                lines = Path(own.hosts_file).expanduser().read_text("utf-8").splitlines()
            except (OSError, ValueError) as error:
                raise RequestError(f"--with hosts_file={where}: {reason_of(error)}") from None
        self._hosts = read_hosts(lines, where)
        config = str(Path(own.config).expanduser().absolute()) if own.config else ""
        self._ssh = OpenSsh(config, own.python or sys.executable)
        self._facts: dict[str, list[Facts]] = {}

    def spec(self, run: Run) -> SshSpec:
        """Build a torchrun command and environment for each node; RequestError without enough hosts or slots."""
        nodes = node_specs(run.cell, "", run.device)
        for node in nodes:
            del node.env["PET_MASTER_ADDR"], node.env["PET_MASTER_PORT"]
        names = chosen(self._hosts, run.cell.layout)
        return SshSpec(nodes, str(run.experiment.root), run.device, asdict(self.options), run=run, hosts=names)

    def preflight(self, spec: SshSpec) -> None:
        """Look at all hosts: whether they can be reached, what they have, and whether they reach each other."""
        layout = spec.run.cell.layout
        if str(layout) in self._facts:
            return
        each = spec.run.cell.devices_per_process if spec.device == "cuda" else 0
        gpus = [node.processes * each for node in spec.nodes]
        size = sum(map(cargo.size, self._cargo(spec)))
        self._facts[str(layout)] = preflight.check(self._ssh, spec.hosts, self.options, size, gpus)

    def examine(self, device: str) -> list[Verdict]:
        """Look at all hosts as `preflight` does, and return all that it finds."""
        names = list(self._hosts)
        return preflight.examine(self._ssh, names, self.options, 0, [int(device == "cuda")] * len(names))[1]

    def start(self, spec: SshSpec, folder: RunFolder) -> SshHandle:
        """Prepare the start on hosts that were looked at; the lines make it, so that a stop finds what was started."""
        facts = self._facts[str(spec.run.cell.layout)]
        return SshHandle(spec, spec.run, folder, self._ssh, facts, self._cargo(spec))

    def once(self, spec: SshSpec, words: list[str], given: bytes, seconds: float, say: Callable[[str], None]) -> bytes:
        """Run Python once on the first host."""
        say(f"host {spec.hosts[0]}")
        return self._ssh.run(spec.hosts[0], [self._ssh.python, *words], given, seconds)[1]

    def cleanup(self, folder: RunFolder) -> None:
        """End what is left of a run on its hosts, and keep the rest of what its processes printed."""
        used = chosen(self._hosts, Layout.parse(folder.launch().layout))
        end_remains(self._ssh, used, folder, self.options.folder)

    def _cargo(self, spec: SshSpec) -> tuple[cargo.Cargo, cargo.Cargo]:
        return cargo.programs(spec.run), {} if self.options.data else cargo.data(spec.run)


def read_hosts(lines: list[str], where: str) -> dict[str, int | None]:
    """Read a host of each line, `h0`, `h0 4` or `h0 slots=4`, with the processes that it has room for if that is said.

    `#` begins a comment. Source: the host files of Open MPI and DeepSpeed. RequestError names the line that is wrong.
    """
    hosts: dict[str, int | None] = {}
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0]
        read = _LINE.fullmatch(words)
        if words.strip() and (not read or read["name"] in hosts):
            why = "is named twice" if read else "is no host; write for example h0, or h0 slots=4"
            raise RequestError(f"{where}:{number}: {shown(line.strip())} {why}")
        if read:
            hosts[read["name"]] = int(read["slots"]) if read["slots"] else None
    if not hosts:
        raise RequestError(f"{where}: it names no host")
    return hosts


def chosen(hosts: dict[str, int | None], layout: Layout) -> list[str]:
    """Return the host of each node; RequestError if there are not enough hosts or slots."""
    if layout.nodes > len(hosts):
        raise RequestError(f"layout {layout} needs {layout.nodes} hosts, {len(hosts)} given: name more of them")
    for (host, slots), processes in zip(hosts.items(), layout.processes, strict=False):
        if slots is not None and processes > slots:
            seen = f"host {host}: layout {layout} wants {processes} processes on it, it has {slots} slots"
            raise RequestError(f"{seen}: choose a smaller layout, or another order of the hosts")
    return list(hosts)[: layout.nodes]
