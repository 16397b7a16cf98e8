"""One node's pod, followed from the first line of its log until the container has ended and all of it is kept."""

import math
import re
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import BinaryIO

from runner.core import clock
from runner.records.schema import NodeExit
from runner.targets import node_view
from runner.targets.base import FollowedNode
from runner.targets.kubernetes.client import PODS, Cluster, ClusterError
from runner.targets.kubernetes.pod_state import PodState, Reason
from runner.targets.node_view import NodeView

AGAIN_SECONDS = 0.3
UNREAD_SECONDS = 60.0
"""How long to ask for the rest of the log of a pod that has ended: a lost machine does not answer."""
_BAD_REQUEST = 400
_PARTS = re.compile(rb"[^\n]*\n|[^\n]+")
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)")
_LONGEST_STAMP = 64
_BACK_SECONDS = 5


class Pod(FollowedNode):
    """A thread copies the log into the launcher's file, each line once."""

    def __init__(self, cluster: Cluster, number: int, output: BinaryIO) -> None:
        super().__init__(number)
        self.state = PodState({})
        self.is_gone = False
        """Whether it was deleted, or will never exist."""
        self.is_left = False
        """Whether nobody wants the rest of its log."""
        self.noticed = math.inf
        """When its end, or its deletion, was first seen here: finer than the cluster's seconds."""
        self.reason: Reason | None = None
        """Why it has not started."""
        self.reason_since = 0.0
        self._cluster, self._output, self._log = cluster, output, PodLog()

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it runs any more or ever will."""
        return self.is_gone or self.state.has_ended

    def seen(self, raw: dict[str, object]) -> None:
        """Take what the cluster says of it."""
        self.state = PodState(raw)
        if self.state.terminated or self.state.due:
            self.noticed = min(self.noticed, clock.monotonic())

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
            output = self._cluster.execute(self.state.name, self.state.trains, command, node_view.SECONDS)
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
            with self._output:  # closing writes what is still in the buffer
                self._copy()
                self._output.write(self._log.finish())
        except OSError as error:
            self.failure = error
        return self.describe()

    def _copy(self) -> None:
        """Read until the container has ended and one more look after that has brought nothing new."""
        until = math.inf
        while not self.is_left:
            ended = self.has_ended
            until = min(until, clock.monotonic() + UNREAD_SECONDS) if ended else math.inf
            try:
                if self.state and (ended or self.state.is_running):
                    for text in self._read(follow=not ended):
                        self._output.write(text)
                        self._output.flush()
                if ended:
                    return
            except ClusterError as error:
                # There is no log of a pod that is gone, or whose container never started.
                if ended and (error.is_absence or error.status == _BAD_REQUEST):
                    return
                if clock.monotonic() > until:
                    self.notes.append(
                        f"node {self.number}: what its pod {self.state.name} printed last is lost: {error}"
                    )
                    return
            clock.sleep(AGAIN_SECONDS)

    def _read(self, *, follow: bool) -> Iterator[bytes]:
        self._log.connected()
        path = f"{self._cluster.path(PODS, self.state.name)}/log"
        query = {"timestamps": "true", "sinceTime": self._log.since, "follow": "true" if follow else None}
        for data in self._cluster.stream(path, container=self.state.trains, **query):
            yield self._log.feed(data)


class PodLog:
    """Passes on each line of a log once, over connections that are lost within a line.

    The kubelet puts a time before every line, in nanoseconds and in its own time zone, but `sinceTime` goes by whole
    seconds. So each connection asks for everything since 5 s before the latest line (a clock may be set back a
    little), and drops the lines whose stamps have been seen, in their order. The text of a line is passed on as it
    comes: a program may print gigabytes without a newline.
    """

    def __init__(self) -> None:
        self._first = 0
        """The second that the next connection begins with; 0 before any line."""
        self._seen: list[tuple[int, bytes]] = []
        """The stamps since then, each with its second; the last one is that of the latest line."""
        self._passed, self._is_open = 0, False
        """How many bytes of the latest line were passed on, and whether its newline is missing."""
        self.connected()

    @property
    def since(self) -> str | None:
        """What the next connection asks for as `sinceTime`; None at the beginning."""
        return datetime.fromtimestamp(self._first, timezone.utc).isoformat() if self._first else None

    def connected(self) -> None:
        """Begin a connection, which sends lines again."""
        self._again = [stamp for _, stamp in self._seen]
        self._head = b""
        self._drop: int | None = None
        """How many bytes of a line's text to drop; None within its stamp."""

    def feed(self, data: bytes) -> bytes:
        """Return what is new, without stamps."""
        return b"".join(text for part in _PARTS.findall(data) for text in self._take(part))

    def finish(self) -> bytes:
        """End what the container printed last, if it has no newline."""
        end, self._is_open = b"\n" * self._is_open, False
        return end

    def _take(self, part: bytes) -> Iterator[bytes]:
        """Take a part of a line, the first of which has the stamp."""
        is_whole = part.endswith(b"\n")
        if self._drop is None:
            stamp, space, part = (self._head + part).partition(b" ")
            self._head = b"" if space or is_whole else stamp[:_LONGEST_STAMP]
            if not space:
                return
            yield from self._begin(stamp)
        if fresh := part[self._drop :]:
            self._passed += len(fresh)
            self._is_open = not is_whole
            yield fresh
        self._drop = None if is_whole else max(0, (self._drop or 0) - len(part))

    def _begin(self, stamp: bytes) -> Iterator[bytes]:
        """Decide how much of a line is new; end the one that was rotated away while the connection was lost."""
        found = _STAMP.fullmatch(stamp)
        if not found or stamp in self._again:  # a proxy or the API server may report its own trouble
            if found:
                del self._again[: self._again.index(stamp) + 1]
            self._drop = self._passed if found and not self._again else sys.maxsize
            return
        yield self.finish()
        second = int(datetime.fromisoformat((found[1] + found[2].replace(b"Z", b"+00:00")).decode("ascii")).timestamp())
        if second - _BACK_SECONDS > self._first:
            self._first = second - _BACK_SECONDS
            self._seen = [seen for seen in self._seen if seen[0] >= self._first]
        self._seen.append((second, stamp))
        self._passed = self._drop = 0
