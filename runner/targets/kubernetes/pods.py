"""One node's pod, followed from the first line of its log until the container has ended and all of it is kept.

The kubelet puts the time of every line before it, in nanoseconds and in its own time zone. `sinceTime` goes by whole
seconds, and a connection that is lost may end within a line. So the next one asks for everything since some seconds
before the latest line (a clock may be set back a little), and the stamps that have been seen since then, in their
order, show what is sent again.
"""

from __future__ import annotations

import math
import queue
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, BinaryIO

from runner.core import clock
from runner.records.schema import NodeExit
from runner.targets import node_view
from runner.targets.base import FollowedNode, Line, Note
from runner.targets.kubernetes.client import PODS, Cluster, ClusterError
from runner.targets.kubernetes.pod_state import PodState, Reason, container_of
from runner.targets.node_view import NodeView
from runner.targets.worker_logs import BoundedLines, cut_note

AGAIN_SECONDS = 0.3
UNREAD_SECONDS = 60.0
"""So long the rest of the log of a pod that has ended is asked for; a machine that is lost does not answer."""
_BAD_REQUEST = 400
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)")
_BACK = timedelta(seconds=5)
_LONGEST_STAMP = 64


class Pod(FollowedNode):
    """A thread copies the log, each line once; what it says is put into `said`, the whole of it into the output."""

    def __init__(self, cluster: Cluster, number: int, output: BinaryIO, said: queue.SimpleQueue[Line | Note]) -> None:
        super().__init__(number)
        self.state = PodState({})
        self.is_gone = False
        self.is_read = False
        """Whether all that it printed is kept."""
        self.noticed = math.inf
        """When its end, or that somebody asked for it, was first seen here: finer than the cluster's seconds."""
        self.reason: Reason | None = None
        """Why it has not started."""
        self.reason_since = 0.0
        self._cluster = cluster
        self._output = output
        self._said = said
        self._log = PodLog()
        self._lines = BoundedLines()

    @property
    def exit(self) -> NodeExit | None:
        """How it ended; None until all that it printed is kept."""
        return self.describe() if self.is_read else None

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it runs any more or ever will."""
        return self.is_gone or self.state.has_ended

    def seen(self, state: dict[str, Any]) -> None:
        """Take what the cluster says; the first time starts to follow the log."""
        self.state = PodState(state)
        if self.state.terminated or self.state.is_deleted:
            self.noticed = min(self.noticed, clock.monotonic())
        if not self.is_begun:
            self.begin()

    def give_up(self) -> None:
        """Do not wait for a pod that will never exist."""
        self.is_gone = True
        if not self.state:
            self._output.close()
            self.is_read = True

    def idle(self) -> NodeView | None:
        """Return why it does not run, with what the cluster says of it."""
        if self.has_ended:
            return NodeView(self.number, idle="its pod has ended")
        why = f": {self.reason.text}" if self.reason else ""
        return None if self.state.is_running else NodeView(self.number, idle=f"its pod has not started{why}")

    def look(self, *, abort: bool) -> NodeView:
        """Look at the processes inside; it needs the right to create pods/exec."""
        command = node_view.command_inside(abort=abort)
        try:
            output = self._cluster.execute(self.state.name, container_of(self.state.raw), command, node_view.SECONDS)
        except (OSError, ValueError) as error:
            return NodeView(self.number, trouble=f"kubectl exec is not possible: {error}")
        return node_view.view(self.number, output)

    def describe(self, *, by_another: bool = False) -> NodeExit:
        """Return how it ended; `by_another` if the job's controller ended it because another one had ended."""
        stopped = self.stopped or by_another
        return self.state.exit(self.number, self._cluster.namespace, stopped=stopped, is_gone=self.is_gone)

    def follow(self) -> NodeExit:
        """Copy the log to its end, or until it cannot be kept."""
        try:
            self._copy()
        except OSError as error:
            self.failure = error
        with suppress(OSError):  # closing writes what is still in the buffer
            self._output.close()
        self.is_read = True
        return self.describe()

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
                    lost = f"what its pod {self.state.name} printed last is lost"
                    self._said.put(Note(f"node {self.number}: {lost}: {error}"))
                    break
            clock.sleep(AGAIN_SECONDS)
        self._keep(self._log.finish())
        self._say(self._lines.finish())
        if self._lines.cut:
            self._said.put(Note(cut_note(f"node {self.number}", self._lines.cut)))

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
            self._said.put(Line(self.number, 0, line))


class PodLog:
    """What has been read of a log so far; the text of a line is passed on as it comes."""

    def __init__(self) -> None:
        self._first: datetime | None = None
        """What the next connection asks for."""
        self._seen: list[tuple[datetime, bytes]] = []
        """The stamps since then, in order, each with its second."""
        self._again: list[bytes] = []
        """Those of them that this connection has yet to send again."""
        self._begun: tuple[datetime, bytes] | None = None
        """The second and the stamp of a line that has not ended, also over a connection that was lost within it."""
        self._passed = 0
        """Bytes of its text that were passed on."""
        self._skip = 0
        """How many of them this connection has yet to send again."""
        self._head = b""
        """The beginning of a line whose stamp is not whole yet."""
        self._is_new: bool | None = None
        """Whether the line is passed on; None within its stamp."""

    @property
    def since(self) -> str | None:
        """What the next connection asks for as `sinceTime`; None at the beginning."""
        return self._first.isoformat() if self._first else None

    def connected(self) -> None:
        """Begin a connection: the line within which the one before was lost is sent again."""
        self._head, self._is_new = b"", None
        self._again = [stamp for _, stamp in self._seen]

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what is new, without stamps."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            yield from self._take(line)
            yield from self._end_line()
        yield from self._take(rest)

    def finish(self) -> Iterator[bytes]:
        """End what the container printed last, if it has no newline."""
        yield from self._end_line()
        if self._begun:
            self._begun = None
            yield b"\n"

    def _take(self, part: bytes) -> Iterator[bytes]:
        """Take a part of a line, the first of which has the stamp."""
        if self._is_new is None:
            stamp, space, part = (self._head + part).partition(b" ")
            if not space:
                self._head = stamp[:_LONGEST_STAMP]
                return
            yield from self._begin(stamp)
        if self._is_new:
            fresh = part[self._skip :]
            self._skip -= len(part) - len(fresh)
            self._passed += len(fresh)
            yield fresh

    def _begin(self, stamp: bytes) -> Iterator[bytes]:
        """Decide whether a line is new; end the one that was rotated away while the connection was lost."""
        found = _STAMP.fullmatch(stamp)
        if not found:  # not written by the kubelet: a proxy or the API server reports its own trouble
            self._is_new = False
            return
        if stamp in self._again:
            del self._again[: self._again.index(stamp) + 1]
            self._is_new = False
            return
        self._is_new = True
        if self._begun and self._begun[1] == stamp:
            self._skip = self._passed
            return
        if self._begun:
            yield b"\n"
        second = datetime.fromisoformat((found[1] + found[2].replace(b"Z", b"+00:00")).decode("ascii"))
        self._begun = second, stamp
        self._passed = self._skip = 0

    def _end_line(self) -> Iterator[bytes]:
        if self._is_new is None:
            yield from self._begin(self._head)
        if self._is_new and self._begun:
            second, stamp = self._begun
            if self._first is None or second - _BACK > self._first:
                self._first = second - _BACK
                self._seen = [seen for seen in self._seen if seen[0] >= self._first]
            if second >= self._first:
                self._seen.append((second, stamp))
            self._begun = None
            yield b"\n"
        self._head, self._is_new = b"", None
