"""One run on several hosts: what it needs is brought, one torchrun is started on each, and all are followed."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Lock
from typing import Any

from runner.core import clock
from runner.core.network import variables_for
from runner.records.folder import RunFolder
from runner.records.node_files import settle
from runner.targets.base import LaunchSpec, Note
from runner.targets.ssh.cargo import Cargo
from runner.targets.ssh.node import LEASE_SECONDS, LOST_GRACE_SECONDS, RemoteNode, run_on_host
from runner.targets.ssh.openssh import OpenSsh
from runner.targets.ssh.session import BOOT, HostError, LostError, Session, Sessions, connect, on_all, source
from runner.targets.ssh.verdicts import Facts
from runner.targets.worker_logs import GRACE_SECONDS, POLL_SECONDS, WorkersHandle

_STOP_SECONDS = 45.0
"""How long a stop may take, also of hosts that do not answer."""


class SshHandle(WorkersHandle):
    """The nodes of one run: what is started, what each host said before, and the programs and data that are brought."""

    nodes: Sequence[RemoteNode]

    def __init__(
        self,
        spec: LaunchSpec,
        folder: RunFolder,
        ssh: OpenSsh,
        python: str,
        facts: Sequence[Facts],
        cargo: tuple[Cargo, Cargo | None],
    ) -> None:
        nodes = [
            RemoteNode(number, ssh, python, host.host, folder, host.folder, host) for number, host in enumerate(facts)
        ]
        super().__init__(folder, nodes, [node.processes for node in spec.nodes])
        self._spec, self._facts = spec, facts
        self._ssh, self._python = ssh, python
        self._programs, self._data = cargo
        self._starting = Lock()
        self._preparing = Sessions()
        self._made: Future[None] | None = None

    def stop(self) -> None:
        """End the run on every host; one that does not answer ends it by itself."""
        with self._starting:
            self._preparing.abort()
        if self._made:
            wait([self._made], _STOP_SECONDS)
        self._end()

    def _start(self) -> Iterator[None]:
        """Bring what is needed, and start the run on all hosts."""
        for node in self.nodes:
            node.brought.begin()
        pool = ThreadPoolExecutor(1)
        self._made = pool.submit(self._make)
        pool.shutdown(wait=False)  # Ctrl-C does not wait for what is brought: `stop` ends that
        while not self._made.done():
            yield None
            wait([self._made], POLL_SECONDS)
        self._made.result()

    def _end(self) -> None:
        begun = [node for node in self.nodes if node.is_begun]
        for node in begun:
            node.stop()
        until = clock.monotonic() + _STOP_SECONDS
        for node in begun:
            node.wait(max(0.0, until - clock.monotonic()))
        self._settle()

    def _finish(self) -> Iterator[Note]:
        yield from self._said()
        self._settle()

    def _settle(self) -> None:
        if all(node.ended for node in self.nodes if node.is_begun):
            settle(self._folder, len(self.nodes))

    def _make(self) -> None:
        """Prepare all hosts; if that has succeeded on all, start the run on all."""
        numbers = range(len(self.nodes))
        places = on_all(self._prepare, numbers)
        sessions = on_all(lambda node: connect(self._ssh, node.host, self._python), self.nodes)
        try:
            with self._starting:
                if self._preparing.is_over:
                    return
                # By these variables the nodes find node 0.
                address = self._facts[0].address if len(self.nodes) > 1 else "127.0.0.1"
                port = sessions[0].ask("port", address=address, port=self._spec.options["port"])["port"]
                env = {"PET_MASTER_ADDR": address, "PET_MASTER_PORT": str(port)}
                on_all(lambda number: self._begin(sessions[number], number, places[number], env), numbers)
        finally:
            for node, session in zip(self.nodes, sessions, strict=True):
                if not node.is_begun:
                    session.close()

    def _prepare(self, number: int) -> str:
        """Bring what a host lacks; return the folder that the run is started in."""
        base = self._facts[number].folder
        with self._preparing.connect(self._ssh, self.nodes[number].host, self._python) as session:
            data = self._spec.options["data"] or self._bring(session, base, "data", self._data)
            data = data or f"{base}/data/none"
            return self._bring(session, base, "programs", self._programs, data)

    @staticmethod
    def _bring(session: Session, base: str, kind: str, cargo: Cargo | None, data: str = "") -> str:
        if cargo is None:
            return ""
        name = cargo.name_with(data)
        place = {"folder": f"{base}/{kind}", "name": name}
        if not session.ask("has", **place)["has"]:
            session.ask("bring", cargo.blocks(), sha256=cargo.sha256, data=data, **place)
        return f"{base}/{kind}/{name}"

    def _begin(self, session: Session, number: int, place: str, env: dict[str, str]) -> None:
        node, facts = self._spec.nodes[number], self._facts[number]
        network = variables_for(facts.interface) if len(self.nodes) > 1 else {}
        words: dict[str, Any] = {
            "argv": [self._python, "-m", "torch.distributed.run", *node.argv[1:]],
            "env": {**network, **node.env, **env},
            "cwd": place,
            "mark": f"{self._folder.path.name}/{number}",
            "boot": BOOT,
            "source": source(),
            "lease_seconds": LEASE_SECONDS,
            "lost_grace_seconds": LOST_GRACE_SECONDS,
            "grace_seconds": GRACE_SECONDS,
        }
        try:
            session.ask("begin", **run_on_host(self._folder.path.name, number, facts.folder), **words)
        except LostError:
            session.close()
            self.nodes[number].begin()  # it may have begun
            raise
        self.nodes[number].begin(session)  # at once: if another host cannot begin, this one is stopped


def end_remains(ssh: OpenSsh, hosts: Sequence[str], python: str, folder: RunFolder, base: str) -> None:
    """End what is left of a run on its hosts, and keep the rest of its output; OSError names who does not answer."""
    nodes = [RemoteNode(number, ssh, python, host, folder, base, None) for number, host in enumerate(hosts)]
    for node in nodes:
        node.stop()
        node.begin()
    for node in nodes:
        node.wait(_STOP_SECONDS)
    settle(folder, len(nodes))
    if left := [node.describe().why or f"host {node.host} does not answer" for node in nodes if not node.has_answered]:
        raise HostError("; ".join(left))
