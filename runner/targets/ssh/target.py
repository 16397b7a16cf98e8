"""Target `ssh`: one torchrun on each of several hosts, reached by OpenSSH."""

from __future__ import annotations

import ipaddress
import re
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

from runner.core.errors import RequestError
from runner.core.layout import Layout
from runner.core.text import shown
from runner.core.yaml_writer import to_json
from runner.definitions.plan import Run
from runner.records.folder import RunFolder
from runner.records.schema import BETWEEN_NODES
from runner.targets.base import LaunchSpec, Target, option
from runner.targets.ssh import cargo, hosts, preflight
from runner.targets.ssh.handle import SshHandle, end_remains, run_on_host
from runner.targets.ssh.openssh import OpenSsh
from runner.targets.ssh.preflight import Facts, Need, Verdict
from runner.targets.torchrun import node_specs

_LARGEST_PORT = 65_535
_MOST_PRINTED = 20_000_000
_NOT_QUOTED_ALIKE = re.compile(r"[\\!\x00-\x1f\x7f]")
"""What the shells that a user may have (sh, csh, fish) do not take alike within quotes."""


@dataclass(frozen=True)
class Options:
    """The options of target ssh; paths of a host are absolute."""

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
    hosts: list[hosts.Host] = field(kw_only=True, default_factory=list)

    def text(self, run_id: str = "") -> str:
        """Return what is started where, as JSON."""
        nodes = [
            {"host": host.name, **({"run": run_on_host(run_id, number)} if run_id else {}), **asdict(node)}
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
        """Read the names of the hosts; RequestError for options that make no sense."""
        super().__init__(options)
        own = self.options
        if bool(own.hosts) == bool(own.hosts_file):
            both = "takes hosts or hosts_file, not both" if own.hosts else "needs --with hosts=h0,h1 or hosts_file=FILE"
            raise RequestError(f"target ssh {both}")
        self._hosts = hosts.of_words(own.hosts) if own.hosts else hosts.of_file(Path(own.hosts_file).expanduser())
        _check(own)
        self._python = own.python or sys.executable
        if _NOT_QUOTED_ALIKE.search(self._python):
            raise RequestError(
                f"python {shown(self._python)}: not every login shell takes \\, ! and line breaks: name it by a link"
            )
        self._config = Path(own.config).expanduser().absolute() if own.config else None
        self._ssh = OpenSsh(str(self._config) if self._config else "")
        self._facts: dict[str, list[Facts]] = {}

    def spec(self, run: Run) -> SshSpec:
        """Build a torchrun command and environment for each node; RequestError without enough hosts or slots."""
        nodes = node_specs(run.cell, "", run.device)
        for node in nodes:
            del node.env["PET_MASTER_ADDR"], node.env["PET_MASTER_PORT"]
        chosen = hosts.chosen(self._hosts, run.cell.layout)
        return SshSpec(nodes, str(run.experiment.root), run.device, asdict(self.options), run=run, hosts=chosen)

    def preflight(self, spec: SshSpec) -> None:
        """Look at all hosts: whether they can be reached, what they have, and whether they reach each other."""
        if str(spec.run.cell.layout) in self._facts:
            return
        per_process = spec.run.cell.devices_per_process
        gpus = [node.processes * per_process for node in spec.nodes] if spec.device == "cuda" else []
        need = self._need(gpus, sum(part.size for part in self._cargo(spec) if part))
        self._facts[str(spec.run.cell.layout)] = preflight.check(self._ssh, spec.hosts, need)

    def examine(self, device: str) -> list[Verdict]:
        """Look at all hosts as `preflight` does, and return all that it finds; nothing is changed on them."""
        need = self._need([1] * len(self._hosts) if device == "cuda" else [], 0)
        found = preflight.Examination(self._ssh, self._hosts, need, before_start=False)
        found.run()
        return found.verdicts

    def start(self, spec: SshSpec, folder: RunFolder) -> SshHandle:
        """Prepare the start on hosts that were looked at; the lines make it, so that a stop finds what was started."""
        return SshHandle(
            spec, spec.run, folder, self._ssh, self._python, self._facts[str(spec.run.cell.layout)], self._cargo(spec)
        )

    def once(self, spec: SshSpec, words: list[str], given: bytes, seconds: float, say: Callable[[str], None]) -> bytes:
        """Run Python once on the first host."""
        host = spec.hosts[0].name
        say(f"host {host}")
        return self._ssh.output(host, [self._python, *words], given, seconds, _MOST_PRINTED)

    def cleanup(self, folder: RunFolder) -> None:
        """End what is left of a run on its hosts, and keep the rest of what its processes printed."""
        used = hosts.chosen(self._hosts, Layout.parse(folder.launch().layout))
        end_remains(self._ssh, [host.name for host in used], self._python, folder, self.options.folder)

    def _need(self, gpus: list[int], size: int) -> Need:
        own, torch = self.options, ""
        if self._config and not self._config.is_file():
            raise RequestError(f"--with config={own.config}: there is no such file")
        if not shutil.which("rsync"):
            raise RequestError("there is no rsync here: install it")
        if not own.python:
            with suppress(metadata.PackageNotFoundError):
                torch = metadata.version("torch")
        return Need(self._python, torch, own.folder, own.data, own.network, own.port, size, gpus)

    def _cargo(self, spec: SshSpec) -> tuple[cargo.Cargo, cargo.Cargo | None]:
        return cargo.programs(spec.run), None if self.options.data else cargo.data(spec.run)


def _check(options: Options) -> None:
    """Refuse values that no host could take."""
    for name in ("python", "folder", "data"):
        value = getattr(options, name)
        if value and not value.startswith("/" if name == "python" else ("/", "~/")):
            raise RequestError(
                f"--with {name}={shown(value)}: write the whole path, from /{' or ~/' * (name != 'python')}"
            )
    if options.network:
        try:
            ipaddress.ip_network(options.network, strict=False)
        except ValueError:
            raise RequestError(
                f"--with network={shown(options.network)}: write an address and a length, for example 10.1.0.0/16"
            ) from None
    if not 0 <= options.port <= _LARGEST_PORT:
        raise RequestError(f"--with port={options.port}: ports are 1 to {_LARGEST_PORT}, or 0 for a free one")
