"""One node of a run, on its host: followed through every connection that there is, until its supervisor has ended."""

import json
from contextlib import closing, suppress
from typing import Any

from runner.core import clock
from runner.core.errors import RequestError
from runner.core.text import one_line, shown
from runner.records.folder import RunFolder
from runner.records.node_files import NodeFiles
from runner.records.schema import NodeExit
from runner.targets import node_view
from runner.targets.base import FollowedNode, exit_of
from runner.targets.node_view import NodeView
from runner.targets.ssh.openssh import OpenSsh
from runner.targets.ssh.session import BOOT, SILENT_SECONDS, HostError, LostError, Session, connect
from runner.targets.ssh.verdicts import Facts

PING_SECONDS = 1.0
GIVE_UP_SECONDS = 60.0
"""A host that cannot be reached for so long is given up: its supervisor has ended the run by then."""
GIVE_UP_STOPPING_SECONDS = 20.0
LEASE_SECONDS = 25
LOST_GRACE_SECONDS = 3
"""A host on which a run is not followed for so long ends it, with this grace: nothing is left there after 30 s."""
_AGAIN_SECONDS = 1.0


def run_on_host(run_id: str, node: int, folder: str) -> dict[str, str]:
    """Name the run's folder on a host, as `on_host` knows it: hosts may share a disk, so the node is in its name."""
    return {"folder": folder, "run": f"{run_id}-node{node}"}


class RemoteNode(FollowedNode):
    """The launcher of one node on its host.

    `base` is the folder of the host in which the kit keeps what is brought; the facts are None for a run of another
    runner.
    """

    def __init__(
        self, number: int, ssh: OpenSsh, python: str, host: str, folder: RunFolder, base: str, facts: Facts | None
    ) -> None:
        super().__init__(number)
        self.host, self.brought = host, NodeFiles(folder, number)
        self.place = facts.place if facts else {}
        self.has_answered = False
        """Whether its supervisor was found to have ended, or there was none any more."""
        self._ssh, self._python, self._mark = ssh, python, folder.path.name
        self._run_there = run_on_host(self._mark, number, base)
        self._has_left_out = False
        self._lost_since: float | None = None
        self._stop_asked: float | None = None
        self._first: Session | None = None

    def begin(self, session: Session | None = None) -> None:
        """Begin to follow a run that was started on the host, at first through the session that has started it."""
        self._first = session
        super().begin()

    def describe(self) -> NodeExit:
        """Return how it ended; what was never started, or is not known to have ended, has no code and no signal."""
        return self.exit or NodeExit(self.number, stopped=True, place=self.place)

    def stop(self) -> None:
        """Tell its supervisor to end it; do not wait for that."""
        if not self.ended:
            self.stopped, self._stop_asked = True, self._stop_asked or clock.monotonic()

    def idle(self) -> NodeView | None:
        """Return that nothing runs there yet, if so."""
        return None if self.is_begun else NodeView(self.number, idle=f"host {self.host} is not ready yet")

    def look(self, *, abort: bool) -> NodeView:
        """Look at the processes on the host."""
        if self._lost_since is not None:
            seconds = clock.monotonic() - self._lost_since
            return NodeView(self.number, trouble=f"host {self.host} does not answer since {seconds:.0f} s")
        words = [self._python, "-c", BOOT, *(["--abort"] if abort else []), self._mark]
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
        except (HostError, RequestError, ValueError) as error:
            return NodeExit(self.number, stopped=self.stopped, why=one_line(error), place=self.place)
        except OSError as error:
            self.failure = error
            with suppress(OSError, ValueError):  # go on without its output, so that its end is seen
                ended = self._until_ended(keep=False)
        return self._describe(ended)

    def _until_ended(self, *, keep: bool = True) -> dict[str, Any]:
        """Follow the run through one connection after the other; return how its supervisor says that it ended."""
        while True:
            try:
                first, self._first = self._first, None
                with closing(first or connect(self._ssh, self.host, self._python)) as session:
                    return self._one_connection(session, keep=keep)
            except LostError as error:
                now = clock.monotonic()
                if self._lost_since is None:
                    self._lost_since = now
                    self.notes.append(f"host {self.host}: the connection was lost; it is tried again: {error}")
                asked = self._stop_asked
                give_up = self._lost_since + GIVE_UP_SECONDS
                if asked is not None:
                    give_up = min(give_up, max(self._lost_since, asked) + GIVE_UP_STOPPING_SECONDS)
                if now > give_up:
                    seconds = LEASE_SECONDS + LOST_GRACE_SECONDS
                    raise HostError(
                        f"{error}; what runs there ends by itself within {seconds} s of the last connection"
                    ) from None
                self._ssh.forget(self.host)
                clock.sleep(_AGAIN_SECONDS)

    def _one_connection(self, session: Session, *, keep: bool) -> dict[str, Any]:
        session.send("follow", offsets=self.brought.sizes(), **self._run_there)
        heard = pinged = clock.monotonic()
        told = False
        while True:
            got = session.receive(PING_SECONDS / 4)
            now = clock.monotonic()
            if got is not None:
                heard = now
                if self._lost_since is not None:
                    self.notes.append(f"host {self.host}: connected again after {now - self._lost_since:.0f} s")
                    self._lost_since = None
                frame, data = got
                if "answer" in frame:
                    ended = session.answer(frame).get("ended")
                    self.has_answered = True
                    if keep:
                        self._remove(session)
                    return ended or {}
                if keep and "file" in frame:
                    self._keep(frame["file"], frame["at"], data)
            if self.stopped and not told:
                session.send("stop")
                told = True
            if now - pinged > PING_SECONDS:
                session.send("ping")
                pinged = now
            if now - heard > SILENT_SECONDS:
                raise LostError(f"host {self.host}: it says nothing for {SILENT_SECONDS:.0f} s")

    def _remove(self, session: Session) -> None:
        """Remove the run's folder on the host; how the run ended is known, whatever becomes of its folder."""
        try:
            session.ask("remove", **self._run_there)
        except HostError as error:
            place = "/".join(filter(None, (self._run_there["folder"], "runs", self._run_there["run"])))
            self.notes.append(f"{error}: left behind there; rm -r {place}")

    def _keep(self, name: str, at: int, data: bytes) -> None:
        if name.startswith("artifacts/") and not self.brought.takes(name):
            if not self._has_left_out:
                self._has_left_out = True
                self.notes.append(f"host {self.host}: left out, as it is hidden or has an odd name: {shown(name)}")
            return
        self.brought.append(name, at, data)

    def _describe(self, ended: dict[str, Any]) -> NodeExit:
        """Translate a supervisor's words."""
        code, reason, why = ended.get("code"), ended.get("why"), None
        if code is None:
            why = f"host {self.host}: its supervisor was killed, or the host has started again"
            return NodeExit(self.number, stopped=self.stopped, why=why, place=self.place)
        if reason == "lease":
            why = f"host {self.host} heard nothing of the runner for {LEASE_SECONDS} s, and ended it"
        return NodeExit(self.number, *exit_of(code), stopped=reason in ("lease", "stop"), why=why, place=self.place)
