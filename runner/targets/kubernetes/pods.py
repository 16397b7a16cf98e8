"""One node's pod, followed from the first line of its log until the container has ended and all of it is kept."""

import math
import re
from collections.abc import Iterable, Iterator
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
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)")
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
        self._reason_since = 0.0
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

    def wait_because(self, reason: Reason | None) -> None:
        """Take what keeps it from starting, if that is known; raise OSError if it never will start."""
        before, self.reason = self.reason, reason or self.reason
        if reason and (before is None or before.key != reason.key):
            self._reason_since = clock.monotonic()
            self.notes.append(f"node {self.number} {reason.text}")
        elif reason and clock.monotonic() - self._reason_since >= reason.seconds:
            raise OSError(f"node {self.number} cannot start: {reason.text}")

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
            path = f"{self._cluster.path(PODS, self.state.name)}/log"
            query = {"timestamps": "true", "sinceTime": self._log.since, "follow": None if ended else "true"}
            try:
                if self.state and (ended or self.state.is_running):
                    blocks = self._cluster.stream(path, container=self.state.trains, **query)
                    for text in self._log.new(blocks):
                        self._output.write(text)
                        self._output.flush()
                if ended:
                    return
            except ClusterError as error:
                # There is no log of a pod that is gone, or whose container never started.
                if ended and (error.is_absence or error.status == _BAD_REQUEST):
                    return
                if clock.monotonic() > until:
                    lost = f"what its pod {self.state.name} printed last is lost: {error}"
                    self.notes.append(f"node {self.number}: {lost}")
                    return
            clock.sleep(AGAIN_SECONDS)


class PodLog:
    """Passes on each line of a log once, over connections that are lost at any byte.

    The kubelet puts a time before every line, in nanoseconds and in its own time zone, but `sinceTime` goes by whole
    seconds. So each connection asks for everything since 5 s before the latest line (a clock may be set back a
    little), and drops the lines whose stamps have been seen, in their order.
    """

    def __init__(self) -> None:
        self._first = 0
        """The second that the next connection begins with; 0 before any line."""
        self._seen: list[tuple[int, bytes]] = []
        """The stamps of the lines since then, each with its second."""
        self._again: list[bytes] = []
        """Those that this connection has yet to send again."""
        self._begun = bytearray()
        """The line that has no newline yet."""

    @property
    def since(self) -> str | None:
        """What the next connection asks for as `sinceTime`; None at the beginning."""
        return datetime.fromtimestamp(self._first, timezone.utc).isoformat() if self._first else None

    def new(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield what is new of a connection, without stamps."""
        self._again = [stamp for _, stamp in self._seen]
        begun = bytearray()
        for block in blocks:
            begun += block
            self._begun = begun  # an unfinished line of the last connection is sent again
            if b"\n" in block:
                *lines, rest = bytes(begun).split(b"\n")
                self._begun = begun = bytearray(rest)
                yield b"".join(map(self._text, lines))

    def finish(self) -> bytes:
        """Return what the container printed last, if it has no newline, with one."""
        return self._text(bytes(self._begun))

    def _text(self, line: bytes) -> bytes:
        """Return a line if it is new; one without a stamp is trouble that a proxy or the API server reports."""
        stamp, space, text = line.partition(b" ")
        found = _STAMP.fullmatch(stamp)
        if not found or not space:
            return b""
        if stamp in self._again:
            del self._again[: self._again.index(stamp) + 1]
            return b""
        second = int(datetime.fromisoformat((found[1] + found[2].replace(b"Z", b"+00:00")).decode("ascii")).timestamp())
        if second - _BACK_SECONDS > self._first:
            self._first = second - _BACK_SECONDS
            self._seen = [seen for seen in self._seen if seen[0] >= self._first]
        self._seen.append((second, stamp))
        return text + b"\n"
