"""One run on several hosts: what it needs is brought, one torchrun is started on each, and all are followed."""

import filecmp
import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from runner.core import clock
from runner.core.errors import RequestError
from runner.core.network import variables_for
from runner.core.text import one_line
from runner.definitions.plan import Run
from runner.records.folder import RunFolder
from runner.records.schema import NodeExit
from runner.targets import node_view
from runner.targets.base import FollowedNode, LaunchSpec, Note, exit_of
from runner.targets.node_view import NodeView
from runner.targets.observing import HOOKS, OBSERVE, OBSERVER, is_observed
from runner.targets.ssh.cargo import Cargo
from runner.targets.ssh.openssh import HostError, LostError, OpenSsh
from runner.targets.ssh.preflight import Facts
from runner.targets.ssh.session import BOOT, SILENT_SECONDS, Session, connect, on_all
from runner.targets.worker_logs import GRACE_SECONDS, POLL_SECONDS, WorkersHandle

_BEAT_SECONDS = 1.0
_GIVE_UP_SECONDS = 60.0
"""A host that cannot be reached for so long is given up: its supervisor has ended the run by then."""
_GIVE_UP_STOPPING_SECONDS = 20.0
_LEASE_SECONDS = 25
_LOST_GRACE_SECONDS = 3
"""A host that hears nothing of the runner for so long ends the run, with this grace: nothing is left after 30 s."""
_AGAIN_SECONDS = 1.0
_STOP_SECONDS = 45.0
"""How long a stop may take, also of hosts that do not answer."""


def run_on_host(run_id: str, node: int) -> str:
    """Name the run's folder on a host; hosts may share a disk, so the node is in its name."""
    return f"{run_id}-node{node}"


class HostNode(FollowedNode):
    """The launcher of one node on its host; the facts are None for a run of another runner.

    `base` is the folder of the host in which the kit keeps what is brought.
    """

    def __init__(
        self, number: int, ssh: OpenSsh, python: str, host: str, folder: RunFolder, base: str, facts: Facts | None
    ) -> None:
        super().__init__(number)
        self.host, self.place = host, facts.place if facts else {}
        self.words = {"folder": base, "run": run_on_host(folder.path.name, number)}
        """How the host finds the run."""
        self.has_answered = False
        """Whether its supervisor was seen to have ended, or there was none."""
        self._ssh, self._python, self._folder = ssh, python, folder
        self._stop, self._stop_asked = threading.Event(), 0.0
        self._lost_since: float | None = None
        self._first: Session | None = None
        self._keeps = True
        self._left_out: HostError | None = None
        """What the host could not read when its files were last fetched."""

    def begin(self, session: Session | None = None) -> None:
        """Follow a run that was started on the host, at first through the session that has started it."""
        self._first = session
        super().begin()

    def describe(self) -> NodeExit:
        """Return how it ended; what was never started, or is not known to have ended, has no code and no signal."""
        return self.exit or NodeExit(self.number, stopped=True, place=self.place)

    def stop(self) -> None:
        """Tell its supervisor to end it; do not wait for that."""
        if not self.ended and not self.stopped:
            self.stopped, self._stop_asked = True, clock.monotonic()
            self._stop.set()

    def idle(self) -> NodeView | None:
        """Return that nothing runs there yet, if so."""
        return None if self.is_begun else NodeView(self.number, idle=f"host {self.host} is not ready yet")

    def look(self, *, abort: bool) -> NodeView:
        """Look at the processes on the host."""
        if self._lost_since is not None:
            seconds = clock.monotonic() - self._lost_since
            return NodeView(self.number, trouble=f"host {self.host} does not answer since {seconds:.0f} s")
        words = [self._python, "-c", BOOT, *(["--abort"] if abort else []), self._folder.path.name]
        given = json.dumps(node_view.script()).encode() + b"\n"
        try:
            printed = self._ssh.output(self.host, words, given, node_view.SECONDS, node_view.LARGEST)
        except OSError as error:
            return NodeView(self.number, trouble=one_line(f"host {self.host}: {error.strerror}", 300))
        view = node_view.view(self.number, printed)
        return view.seen.of_node(self.number) if view.seen else view

    def follow(self) -> NodeExit:
        """Keep what comes from the host, through one connection after the other."""
        ended: dict[str, Any] = {}
        try:
            ended = self._until_ended()
        except (HostError, RequestError) as error:
            return NodeExit(self.number, stopped=self.stopped, why=one_line(error), place=self.place)
        except OSError as error:
            self.failure, self._keeps = error, False
            with suppress(OSError):  # go on without its output, so that its end is seen
                ended = self._until_ended()
        code, reason, why = ended.get("code"), ended.get("why"), None
        if code is None:
            why = f"host {self.host}: its supervisor was killed, or the host has started again"
            return NodeExit(self.number, stopped=self.stopped, why=why, place=self.place)
        if reason == "lease":
            why = f"host {self.host} heard nothing of the runner for {_LEASE_SECONDS} s, and ended it"
        return NodeExit(self.number, *exit_of(code), stopped=reason in ("lease", "stop"), why=why, place=self.place)

    def _until_ended(self) -> dict[str, Any]:
        """Return how the supervisor says that the run ended; HostError if the host does not answer any more."""
        while True:
            try:
                first, self._first = self._first, None
                with closing(first or connect(self._ssh, self.host, self._python)) as session:
                    return self._one_connection(session)
            except LostError as error:
                now = clock.monotonic()
                if self._lost_since is None:
                    self._lost_since = now
                    self.notes.append(f"host {self.host}: the connection was lost; it is tried again: {error}")
                give_up = self._lost_since + _GIVE_UP_SECONDS
                if self.stopped:
                    give_up = min(give_up, max(self._lost_since, self._stop_asked) + _GIVE_UP_STOPPING_SECONDS)
                if now > give_up:
                    seconds = _LEASE_SECONDS + _LOST_GRACE_SECONDS
                    raise HostError(
                        f"{error}; what runs there ends by itself within {seconds} s of the last connection"
                    ) from None
                self._ssh.forget(self.host)
                clock.sleep(_AGAIN_SECONDS)

    def _one_connection(self, session: Session) -> dict[str, Any]:
        """Renew the lease, and fetch what was printed, until the run has ended."""
        fetched, told = 0, False
        while True:
            told = self.stopped
            state = self._beat(session)
            if self._lost_since is not None:
                self.notes.append(
                    f"host {self.host}: connected again after {clock.monotonic() - self._lost_since:.0f} s"
                )
                self._lost_since = None
            if self._keeps and state["folder"] and (state["size"] != fetched or not state["lives"]):
                self._fetch(session, state["folder"], ["--exclude=/artifacts"] if state["lives"] else [])
                fetched = state["size"]
            if not state["lives"]:
                self.has_answered = True
                if self._keeps and state["folder"]:
                    self._leave(session, state["folder"])
                return state["ended"] or {}
            if told:
                clock.sleep(POLL_SECONDS)
            else:
                self._stop.wait(_BEAT_SECONDS)

    def _beat(self, session: Session) -> dict[str, Any]:
        return session.ask("beat", SILENT_SECONDS, stop=self.stopped, **self.words)

    def _fetch(self, session: Session, folder: str, words: list[str]) -> None:
        self._left_out = None
        try:
            self._ssh.fetch(self.host, words, f"{folder}/kept", self._folder.path, lambda: self._beat(session))
        except LostError:
            raise
        except HostError as error:
            self._left_out = error

    def _leave(self, session: Session, folder: str) -> None:
        """Remove the run's folder on the host, if all of it is here; how the run ended is known in any case."""
        try:
            if self._left_out:
                raise self._left_out
            session.ask("remove", **self.words)
        except HostError as error:
            self.notes.append(f"{error}: left behind there; rm -r {folder}")


class SshHandle(WorkersHandle):
    """The nodes of one run: what is started, what each host said before, and the programs and data that are brought."""

    nodes: Sequence[HostNode]

    def __init__(
        self,
        spec: LaunchSpec,
        run: Run,
        folder: RunFolder,
        ssh: OpenSsh,
        python: str,
        facts: Sequence[Facts],
        cargo: tuple[Cargo, Cargo | None],
    ) -> None:
        nodes = [
            HostNode(number, ssh, python, host.host, folder, host.folder, host) for number, host in enumerate(facts)
        ]
        super().__init__(folder, nodes, [node.processes for node in spec.nodes])
        self._spec, self._facts, self._is_observed = spec, facts, is_observed(run)
        self._ssh, self._python = ssh, python
        self._programs, self._data = cargo
        self._starting, self._is_over = threading.Lock(), False
        self._made: Future[None] | None = None

    def stop(self) -> None:
        """End the run on every host; one that does not answer ends it by itself."""
        with self._starting:
            self._is_over = True
        if self._made:
            wait([self._made], _STOP_SECONDS)
        self._end()

    def _start(self) -> Iterator[None]:
        """Bring what is needed, and start the run on all hosts."""
        for node in self.nodes:
            self._folder.open_agent(node.number).close()
        pool = ThreadPoolExecutor(1)
        self._made = pool.submit(self._make)
        pool.shutdown(wait=False)  # Ctrl-C does not wait for what is brought: `stop` ends that
        while not self._made.done():
            yield None
            wait([self._made], POLL_SECONDS)
        self._made.result()

    def _end(self) -> None:
        _end_all(self.nodes)
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
                if self._is_over:
                    return
                # By these variables the nodes find node 0.
                address = self._facts[0].address if len(self.nodes) > 1 else "127.0.0.1"
                port = sessions[0].ask("listen", address=address, port=self._spec.options["port"], accept=False)["port"]
                env = {"PET_MASTER_ADDR": address, "PET_MASTER_PORT": str(port)}
                on_all(lambda number: self._begin(sessions[number], number, places[number], env), numbers)
        finally:
            for node, session in zip(self.nodes, sessions, strict=True):
                if not node.is_begun:
                    session.close()

    def _prepare(self, number: int) -> str:
        """Bring what a host lacks; return the folder that the run is started in."""
        with closing(connect(self._ssh, self.nodes[number].host, self._python)) as session:
            data = self._spec.options["data"]
            if self._data:
                data = self._bring(session, number, "data", self._data.sha256, self._data)
            name = self._programs.name_with(data or "none")
            return self._bring(session, number, "programs", name, self._programs)

    def _bring(self, session: Session, number: int, kind: str, name: str, cargo: Cargo) -> str:
        """Bring files to a folder that is named by their hash, so that no other run changes it."""

        def meanwhile() -> None:
            if self._is_over:
                raise HostError(f"host {session.host}: the run was stopped before it has begun")

        place = f"{self._facts[number].folder}/{kind}/{name}"
        session.ask("use", path=place)
        for root, names in cargo.roots.items():
            self._ssh.send(session.host, root, names, place, meanwhile)
        return place

    def _begin(self, session: Session, number: int, place: str, env: dict[str, str]) -> None:
        node, facts, base = self._spec.nodes[number], self._facts[number], self._facts[number].folder
        observed = {OBSERVE: f"{place}/trainkit/{OBSERVER.name}"} if self._is_observed else {}
        network = variables_for(facts.interface) if len(self.nodes) > 1 else {}
        kept = {
            "agent": self._folder.agent(number),
            "logs": self._folder.node(number),
            "artifacts": _artifacts(self._folder, number),
        }
        words: dict[str, Any] = {
            "argv": [self._python, "-m", "torch.distributed.run", *node.argv[1:]],
            "env": {**network, **node.env, **env, **observed},
            "cwd": place,
            "data": self._spec.options["data"] or f"{base}/data/{self._data.sha256 if self._data else 'none'}",
            "hook": (HOOKS / "sitecustomize.py").read_text("utf-8"),
            "kept": {name: str(path.relative_to(self._folder.path)) for name, path in kept.items()},
            "mark": f"{self._folder.path.name}/{number}",
            "lease_seconds": _LEASE_SECONDS,
            "lost_grace_seconds": _LOST_GRACE_SECONDS,
            "grace_seconds": GRACE_SECONDS,
        }
        try:
            session.ask("begin", **self.nodes[number].words, **words)
        except LostError:
            session.close()
            self.nodes[number].begin()  # it may have begun
            raise
        self.nodes[number].begin(session)  # at once: if another host cannot begin, this one is stopped


def end_remains(ssh: OpenSsh, hosts: Sequence[str], python: str, folder: RunFolder, base: str) -> None:
    """End what is left of a run on its hosts, and keep the rest of its output; OSError names who does not answer."""
    nodes = [HostNode(number, ssh, python, host, folder, base, None) for number, host in enumerate(hosts)]
    for node in nodes:
        node.begin()
    _end_all(nodes)
    settle(folder, len(nodes))
    if left := [node.describe().why or f"host {node.host} does not answer" for node in nodes if not node.has_answered]:
        raise HostError("; ".join(left))


def settle(folder: RunFolder, nodes: int) -> None:
    """Put the artifacts of all nodes together, as on one disk; may be called again.

    Those that another node has too, with another content, stay in `artifacts/@node1/` and so on.
    """
    for own in (_artifacts(folder, node) for node in range(1, nodes)):
        for path in sorted(own.rglob("*"), reverse=True):
            to = folder.path / "artifacts" / path.relative_to(own)
            with suppress(OSError):  # a file where a folder should be: it stays
                if path.is_dir():
                    path.rmdir()
                elif not to.exists():
                    to.parent.mkdir(parents=True, exist_ok=True)
                    path.rename(to)
                elif to.is_file() and filecmp.cmp(path, to, shallow=False):
                    path.unlink()
        with suppress(OSError):
            own.rmdir()


def _end_all(nodes: Sequence[HostNode]) -> None:
    begun = [node for node in nodes if node.is_begun]
    for node in begun:
        node.stop()
    until = clock.monotonic() + _STOP_SECONDS
    for node in begun:
        node.wait(max(0.0, until - clock.monotonic()))


def _artifacts(folder: RunFolder, node: int) -> Path:
    artifacts = folder.path / "artifacts"
    return artifacts / f"@node{node}" if node else artifacts
