"""Define target `ssh` and its options."""

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
"""A host or ssh alias, optionally with user and slots, in characters that neither ssh nor a shell interprets."""


@dataclass(frozen=True)
class Options:
    """The options of target ssh. Paths on a host are absolute, or relative to the user's home on the host."""

    hosts: str = option("host names or aliases for ssh, separated by commas; the first is node 0")
    hosts_file: str = option("file with one host per line, optionally with its number of processes: h0 slots=4")
    config: str = option("configuration file for ssh -F; by default the user's")
    python: str = option("path of a Python with torch on the hosts; by default the path of the runner's Python")
    folder: str = option("folder on the hosts for programs, data and output; by default in ~/.cache")
    data: str = option("folder on the hosts with prepared data; by default this machine's data are copied")
    network: str = option(
        "network in which the hosts reach each other, for example 10.1.0.0/16; by default ssh's", axis=BETWEEN_NODES
    )
    port: int = option("port of the rendezvous on the first host; 0 chooses a free port", 0)


@dataclass(frozen=True)
class SshSpec(LaunchSpec):
    """A run and the host of each node. Addresses and ports are chosen when the run starts."""

    run: Run = field(kw_only=True, repr=False)
    hosts: list[str] = field(kw_only=True, default_factory=list)

    def text(self, run_id: str = "") -> str:
        """Return the command, environment and host of each node as JSON."""
        nodes = [
            {"host": host, **({"run": run_on_host(run_id, number)} if run_id else {}), **asdict(node)}
            for number, (host, node) in enumerate(zip(self.hosts, self.nodes, strict=True))
        ]
        return to_json({"nodes": nodes, "cwd": self.cwd, "device": self.device, "options": self.options})


class Ssh(Target[SshSpec]):
    """Start torchrun on hosts by SSH."""

    name: ClassVar[str] = "ssh"
    summary: ClassVar[str] = "hosts that you reach by SSH; one torchrun on each"
    observes: ClassVar[bool] = True
    Options: ClassVar[type] = Options

    def __init__(self, options: Any = None) -> None:
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
        """Build the torchrun command of each node. Raises RequestError if there are too few hosts or slots."""
        nodes = node_specs(run.cell, "", run.device)
        for node in nodes:
            del node.env["PET_MASTER_ADDR"], node.env["PET_MASTER_PORT"]
        names = chosen(self._hosts, run.cell.layout)
        return SshSpec(nodes, str(run.experiment.root), run.device, asdict(self.options), run=run, hosts=names)

    def preflight(self, spec: SshSpec) -> None:
        """Check that ssh reaches all hosts, that they are suitable, and that they reach each other."""
        layout = spec.run.cell.layout
        if str(layout) in self._facts:
            return
        each = spec.run.cell.devices_per_process if spec.device == "cuda" else 0
        gpus = [node.processes * each for node in spec.nodes]
        size = sum(map(cargo.size, self._cargo(spec)))
        self._facts[str(layout)] = preflight.check(self._ssh, spec.hosts, self.options, size, gpus)

    def examine(self, device: str) -> list[Verdict]:
        """Return the results of all checks of `preflight`, for all hosts."""
        names = list(self._hosts)
        return preflight.examine(self._ssh, names, self.options, 0, [int(device == "cuda")] * len(names))[1]

    def start(self, spec: SshSpec, folder: RunFolder) -> SshHandle:
        """Return a handle whose `lines` start the run. Uses the facts that `preflight` has collected."""
        facts = self._facts[str(spec.run.cell.layout)]
        return SshHandle(spec, spec.run, folder, self._ssh, facts, self._cargo(spec))

    def once(self, spec: SshSpec, words: list[str], given: bytes, seconds: float, say: Callable[[str], None]) -> bytes:
        """Run Python once on the first host and return its output."""
        say(f"host {spec.hosts[0]}")
        return self._ssh.run(spec.hosts[0], [self._ssh.python, *words], given, seconds)[1]

    def cleanup(self, folder: RunFolder) -> None:
        """End the remaining processes of a run on its hosts, and fetch the remaining output."""
        used = chosen(self._hosts, Layout.parse(folder.launch().layout))
        end_remains(self._ssh, used, folder, self.options.folder)

    def _cargo(self, spec: SshSpec) -> tuple[cargo.Cargo, cargo.Cargo]:
        return cargo.programs(spec.run), {} if self.options.data else cargo.data(spec.run)


def read_hosts(lines: list[str], where: str) -> dict[str, int | None]:
    """Return the slots of each host from lines like `h0`, `h0 4` or `h0 slots=4`. The slots of `h0` alone are None.

    `#` starts a comment. Source: the host files of Open MPI and DeepSpeed. Raises RequestError for an invalid line.
    """
    hosts: dict[str, int | None] = {}
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0]
        read = _LINE.fullmatch(words)
        if words.strip() and (not read or read["name"] in hosts):
            why = "is named twice" if read else "is not a host: write h0 or h0 slots=4, for example"
            raise RequestError(f"{where}:{number}: {shown(line.strip())} {why}")
        if read:
            hosts[read["name"]] = int(read["slots"]) if read["slots"] else None
    if not hosts:
        raise RequestError(f"{where}: no hosts")
    return hosts


def chosen(hosts: dict[str, int | None], layout: Layout) -> list[str]:
    """Return the host of each node. Raises RequestError if there are too few hosts or slots."""
    if layout.nodes > len(hosts):
        raise RequestError(f"layout {layout} needs {layout.nodes} hosts, {len(hosts)} given: name more hosts")
    for (host, slots), processes in zip(hosts.items(), layout.processes, strict=False):
        if slots is not None and processes > slots:
            seen = f"host {host} has {slots} slots, layout {layout} needs {processes}"
            raise RequestError(f"{seen}: choose a smaller layout or another order of the hosts")
    return list(hosts)[: layout.nodes]
