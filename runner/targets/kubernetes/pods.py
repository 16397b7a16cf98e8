"""One node's pod, followed from the first line of its log until the container has ended and all of it is kept."""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO

from runner.core import clock
from runner.core.text import one_line
from runner.records.schema import NodeExit
from runner.targets import node_view
from runner.targets.base import Line, Note
from runner.targets.bounded_lines import BoundedLines, cut_note
from runner.targets.kubernetes.client import PODS, Cluster, ClusterError
from runner.targets.kubernetes.pod_log import PodLog
from runner.targets.kubernetes.pod_state import PodState, container_of
from runner.targets.node_view import NodeView

AGAIN_SECONDS = 0.3
UNREAD_SECONDS = 60.0
"""So long the rest of the log of a pod that has ended is asked for; a machine that is lost does not answer."""
_BAD_REQUEST = 400
_LONGEST = 200


class Pod:
    """A thread copies the log, each line once; what it says is put into `said`, the whole of it into the output."""

    def __init__(self, cluster: Cluster, node: int, output: BinaryIO, said: queue.SimpleQueue[Line | Note]) -> None:
        self.node = node
        self.state = PodState({})
        self.is_gone = False
        self.is_read = False
        """Whether all that it printed is kept."""
        self.stopped = False
        self.noticed = math.inf
        """When its end, or that somebody asked for it, was first seen here: finer than the cluster's seconds."""
        self._cluster = cluster
        self._output = output
        self._said = said
        self._log = PodLog()
        self._lines = BoundedLines()
        self._failure: OSError | None = None
        self._thread = threading.Thread(target=self._follow, daemon=True)

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it runs any more or ever will."""
        return self.is_gone or self.state.has_ended

    @property
    def failed(self) -> bool:
        """Whether it has ended with anything but exit code 0."""
        return self.is_read and (self.state.terminated or {}).get("exitCode") != 0

    def seen(self, state: dict[str, Any]) -> None:
        """Take what the cluster says; the first time starts to follow the log."""
        begins = not self.state
        self.state = PodState(state)
        if self.state.terminated or self.state.is_deleted:
            self.noticed = min(self.noticed, clock.monotonic())
        if begins:
            self._thread.start()

    def give_up(self) -> None:
        """Do not wait for a pod that will never exist."""
        self.is_gone = True
        if not self.state:
            self._output.close()
            self.is_read = True

    def join(self, seconds: float) -> None:
        """Wait until all is read."""
        if self._thread.ident is not None:
            self._thread.join(seconds)

    def raise_failure(self) -> None:
        """Raise the OSError that keeps the log from being written, for example because the disk is full."""
        if self._failure:
            raise self._failure

    def look(self, *, abort: bool) -> NodeView:
        """Look at the processes inside; it needs the right to create pods/exec."""
        command = node_view.command_inside(abort=abort)
        try:
            output = self._cluster.execute(self.state.name, container_of(self.state.raw), command, node_view.SECONDS)
        except (OSError, ValueError) as error:
            return NodeView(self.node, trouble=f"kubectl exec is not possible: {one_line(error, _LONGEST)}")
        return node_view.view(self.node, output)

    def exit(self, *, by_another: bool = False) -> NodeExit:
        """Return how it ended; `by_another` if the job's controller ended it because another one had ended."""
        stopped = self.stopped or by_another
        return self.state.exit(self.node, self._cluster.namespace, stopped=stopped, is_gone=self.is_gone)

    def _follow(self) -> None:
        try:
            self._copy()
        except OSError as error:
            self._failure = error
        with suppress(OSError):  # closing writes what is still in the buffer
            self._output.close()
        self.is_read = True

    def _copy(self) -> None:
        """Read until the container has ended and one more look after that has brought nothing new."""
        until = math.inf
        while True:
            ended = self.has_ended
            until = min(until, clock.monotonic() + UNREAD_SECONDS) if ended else math.inf
            try:
                if ended or self.state.is_running or self.state.terminated is not None:
                    self._read(follow=not ended)
                if ended:
                    break
            except ClusterError as error:
                # There is no log of a pod that is gone, or whose container never started.
                if ended and (error.is_absence or error.status == _BAD_REQUEST):
                    break
                if clock.monotonic() > until:
                    why = one_line(error, _LONGEST)
                    self._said.put(
                        Note(f"node {self.node}: what its pod {self.state.name} printed last is lost: {why}")
                    )
                    break
            clock.sleep(AGAIN_SECONDS)
        self._keep(self._log.finish())
        self._say(self._lines.finish())
        if self._lines.cut:
            self._said.put(Note(cut_note(f"node {self.node}", self._lines.cut)))

    def _read(self, *, follow: bool) -> None:
        self._log.connected()
        path = f"{self._cluster.path(PODS, self.state.name)}/log"
        container = container_of(self.state.raw)
        query: dict[str, object] = {"container": container, "timestamps": "true", "sinceTime": self._log.since}
        for data in self._cluster.stream(path, **query, **({"follow": "true"} if follow else {})):
            self._keep(self._log.feed(data))

    def _keep(self, texts: Iterator[bytes]) -> None:
        text = b"".join(texts)
        self._output.write(text)
        self._output.flush()
        self._say(self._lines.feed(text))

    def _say(self, lines: list[bytes]) -> None:
        for line in lines:
            self._said.put(Line(self.node, 0, line))
