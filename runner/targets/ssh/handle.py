"""Start and follow one run on several hosts."""

import filecmp
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any

from runner.core import clock
from runner.core.network import variables_for
from runner.core.text import listed, one_line
from runner.definitions.environment import values_of
from runner.definitions.plan import Run
from runner.records.folder import RunFolder
from runner.records.schema import NodeExit
from runner.targets import node_view
from runner.targets.base import FollowedNode, LaunchSpec, Note, exit_of
from runner.targets.node_view import NodeView
from runner.targets.observing import HOOKS, OBSERVE, OBSERVER, is_observed
from runner.targets.ssh import cargo
from runner.targets.ssh.cargo import Cargo
from runner.targets.ssh.on_host import LEASE_SECONDS
from runner.targets.ssh.openssh import BOOT, SILENT_SECONDS, HostError, LostError, OpenSsh, at_once
from runner.targets.ssh.preflight import Facts
from runner.targets.worker_logs import POLL_SECONDS, WorkersHandle

_BEAT_SECONDS = 2.0
"""Interval of `beat` requests. A request takes about 45 ms of one core from the run."""
_GIVE_UP_SECONDS = 40.0
"""Give up a host that has not answered for this time; by then, the host's supervisor has ended the run."""
_STOP_SECONDS = 45.0
"""Longest time that `stop` waits for hosts to answer."""
_PLACE = ("host", "machine", "address", "interface", "python", "torch")
"""Facts about a node's host that the record keeps."""
_HOOKS = "targets/hooks"
"""Folder of sitecustomize.py, in the package `runner` and in a host's programs folder."""


def run_on_host(run_id: str, node: int) -> str:
    """Return the name of a node's folder on its host. The name is unique even if hosts share a disk."""
    return f"{run_id}-node{node}"


class HostNode(FollowedNode):
    """The launcher of one node on its host; `base` is the kit's folder on the host."""

    def __init__(
        self, number: int, ssh: OpenSsh, host: str, folder: RunFolder, base: str, place: dict[str, Any] | None = None
    ) -> None:
        super().__init__(number)
        self.host, self.place = host, place or {}
        self.words = {"base": base, "run": run_on_host(folder.path.name, number)}
        """Arguments that identify the run on its host."""
        self.has_answered = False
        """Whether the host confirmed that no supervisor is left."""
        self._ssh, self._folder = ssh, folder
        self._lost_since: float | None = None

    def describe(self) -> NodeExit:
        """Return how the launcher ended. If it never started or its end is unknown, code and signal are None."""
        return self.exit or NodeExit(self.number, stopped=True, place=self.place)

    def stop(self) -> None:
        """Make the next `beat` request ask the supervisor to end the run. Does not wait for the end."""
        self.stopped = self.stopped or not self.ended

    def idle(self) -> NodeView | None:
        """Return a view with the reason if the node has not been started, otherwise None."""
        return None if self.is_begun else NodeView(self.number, idle=f"host {self.host} is not ready yet")

    def look(self, *, abort: bool) -> NodeView:
        """Return a view of the node's processes on its host."""
        words = [self._ssh.python, "-c", BOOT, *(["--abort"] if abort else []), self._folder.path.name]
        try:
            _, printed = self._ssh.run(self.host, words, node_view.script().encode(), node_view.SECONDS)
        except OSError as error:
            return NodeView(self.number, trouble=one_line(error, 300))
        view = node_view.view(self.number, printed)
        return view.seen.of_node(self.number) if view.seen else view

    def follow(self) -> NodeExit:
        """Renew the lease and fetch the output until the supervisor has ended or the runner gives up the host."""
        ended: dict[str, Any] = {}
        why = f"host {self.host}: its supervisor was killed, or the host was rebooted"
        try:
            ended = self._until_ended()
        except OSError as error:
            if not isinstance(error, HostError) and not self.failure:
                self.failure = error  # no more output, but still wait for the end
                return self.follow()
            why = one_line(error)
        if not ended:
            return NodeExit(self.number, stopped=self.stopped, why=why, place=self.place)
        reason = ended["why"]
        lease = f"host {self.host} lost the runner for {LEASE_SECONDS} s and ended the run"
        return NodeExit(
            self.number,
            *exit_of(ended["code"]),
            stopped=bool(reason),
            why=lease if reason == "lease" else None,
            place=self.place,
        )

    def _until_ended(self) -> dict[str, Any]:
        """Wait for the supervisor's end, and return its report, or {} if it left none.

        Raises HostError if the host is given up.
        """
        while True:
            unread = ""
            try:
                state = self._beat()
                folder = "" if self.failure else state["folder"]
                if folder:
                    words = ["--exclude=/artifacts"] if state["lives"] else []
                    place = f"{folder}/kept"
                    unread = self._ssh.fetch(self.host, words, place, self._folder.path, self._beat)
            except LostError as error:
                self._lose(error)
            else:
                if not state["lives"]:
                    break
            clock.sleep(_BEAT_SECONDS)
        self.has_answered = True
        if folder and not unread:
            try:
                self._ssh.ask(self.host, "remove", **self.words)
            except HostError as error:  # how the run ended is known nevertheless
                unread = str(error)
        if folder and unread:
            self.notes.append(f"{unread}: files are left there: rm -r {folder}")
        return dict(state["ended"])

    def _beat(self) -> dict[str, Any]:
        state = self._ssh.ask(self.host, "beat", SILENT_SECONDS, stop=self.stopped, **self.words)
        if self._lost_since is not None:
            seconds = clock.monotonic() - self._lost_since
            self.notes.append(f"host {self.host}: connected again after {seconds:.0f} s")
            self._lost_since = None
        return dict(state)

    def _lose(self, error: LostError) -> None:
        now = clock.monotonic()
        if self._lost_since is None:
            self._lost_since = now
            self.notes.append(f"host {self.host}: the connection was lost; trying again: {error}")
        if now - self._lost_since > _GIVE_UP_SECONDS:
            raise HostError(f"{error}; its processes end by themselves within 30 s of the last connection")
        self._ssh.forget(self.host)


class SshHandle(WorkersHandle):
    """The nodes of one run on their hosts."""

    nodes: Sequence[HostNode]

    def __init__(
        self,
        spec: LaunchSpec,
        run: Run,
        folder: RunFolder,
        ssh: OpenSsh,
        facts: Sequence[Facts],
        brought: tuple[Cargo, Cargo],
    ) -> None:
        nodes = [
            HostNode(number, ssh, said["host"], folder, said["folder"], {name: said[name] for name in _PLACE})
            for number, said in enumerate(facts)
        ]
        super().__init__(folder, nodes, [node.processes for node in spec.nodes])
        self._spec, self._facts, self._ssh, self._is_observed = spec, facts, ssh, is_observed(run)
        self._programs, self._data = brought
        self._programs[HOOKS.parents[1]] = {f"{_HOOKS}/sitecustomize.py"}
        self._is_over = False
        self._made: Future[None] | None = None

    def stop(self) -> None:
        """End the run on every host. A host that cannot be reached ends its processes by itself."""
        self._is_over = True
        if self._made:
            wait([self._made], _STOP_SECONDS)
        self._end()

    def _start(self) -> Iterator[None]:
        for node in self.nodes:
            self._folder.open_agent(node.number).close()
        pool = ThreadPoolExecutor(1)
        self._made = pool.submit(self._make)
        pool.shutdown(wait=False)  # Ctrl-C must not wait for transfers: `stop` ends them
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
        numbers = range(len(self.nodes))
        data_name = cargo.sha256(self._data) if self._data else "none"
        places = _all(at_once(lambda number: self._prepare(number, data_name), numbers))
        port = self._begin(0, places[0], self._spec.options["port"])
        _all(at_once(lambda number: self._begin(number, places[number], port), numbers[1:]))

    def _prepare(self, number: int, data_name: str) -> tuple[str, str]:
        host, base = self.nodes[number].host, self._facts[number]["folder"]
        data = self._spec.options["data"] or f"{base}/data/{data_name}"
        programs = f"{base}/programs/{cargo.sha256(self._programs, data)}"  # it links to `data`
        for place, brought in ((data, self._data), (programs, self._programs)):
            if brought:
                self._go_on()
                self._ssh.ask(host, "use", path=place)
            for root, names in brought.items():
                self._ssh.send(host, root, names, place, self._go_on)
        return programs, data

    def _begin(self, number: int, places: tuple[str, str], port: int) -> int:
        """Start the run on a host, and return the rendezvous port. If `port` is 0, node 0 chooses a port."""
        self._go_on()
        node, own, facts, (place, data) = self._spec.nodes[number], self.nodes[number], self._facts[number], places
        kept = f"{facts['folder']}/runs/{own.words['run']}/kept"
        log, logs, artifacts = (
            f"{kept}/{path.relative_to(self._folder.path)}"
            for path in (self._folder.agent(number), self._folder.node(number), _artifacts(self._folder, number))
        )
        several = len(self.nodes) > 1
        env = {
            **(variables_for(facts["interface"]) if several else {}),
            **values_of(node.env),
            **({OBSERVE: f"{place}/trainkit/{OBSERVER.name}"} if self._is_observed else {}),
            "PET_MASTER_ADDR": self._facts[0]["address"] if several else "127.0.0.1",
            "PET_LOG_DIR": logs,
            "PYTHONPATH": ":".join(filter(None, [f"{place}/{_HOOKS}", node.env.get("PYTHONPATH"), place])),
            "KIT_SEEN": logs,
            "KIT_ARTIFACTS": artifacts,
            "KIT_RUN_ID": f"{self._folder.path.name}/{number}",
        }
        argv = [self._ssh.python, "-m", "torch.distributed.run", *node.argv[1:]]
        words = {"cwd": place, "data": data, "folders": [logs, artifacts], "port": port, "argv": argv, "env": env}
        try:
            begun = self._ssh.ask(own.host, "begin", **own.words, **words, log=log)
        except LostError:
            own.begin()  # the host may have started the run
            raise
        own.begin()  # now, so that the node is stopped if other hosts fail
        return int(begun["port"])

    def _go_on(self) -> None:
        if self._is_over:
            raise HostError("the run was stopped before it began")


def end_remains(ssh: OpenSsh, hosts: Sequence[str], folder: RunFolder, base: str) -> None:
    """End the remaining processes of a run on its hosts and fetch the remaining output.

    Raises HostError if hosts do not answer.
    """
    nodes = [HostNode(number, ssh, host, folder, base) for number, host in enumerate(hosts)]
    for node in nodes:
        node.begin()
    _end_all(nodes)
    settle(folder, len(nodes))
    if left := [node.describe().why or f"host {node.host} does not answer" for node in nodes if not node.has_answered]:
        raise HostError("; ".join(left))


def settle(folder: RunFolder, nodes: int) -> None:
    """Merge the artifacts of all nodes into one folder. Safe to call again.

    If nodes have different artifacts with the same name, the first node's artifact is used. The others stay in
    their nodes' folders, for example `artifacts/@node1/`.
    """
    for own in (_artifacts(folder, node) for node in range(1, nodes)):
        for path in sorted(own.rglob("*"), reverse=True):
            to = folder.path / "artifacts" / path.relative_to(own)
            with suppress(OSError):  # another node has a file where this one has a folder
                if path.is_dir():
                    path.rmdir()
                elif not to.exists():
                    to.parent.mkdir(parents=True, exist_ok=True)
                    path.rename(to)
                elif to.is_file() and filecmp.cmp(path, to, shallow=False):
                    path.unlink()
        with suppress(OSError):
            own.rmdir()


def _all(got: Sequence[Any]) -> list[Any]:
    if errors := [str(result) for result in got if isinstance(result, HostError)]:
        raise HostError(listed(dict.fromkeys(errors), "; "))
    return list(got)


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
