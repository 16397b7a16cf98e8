"""The pod of a node and its log."""

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
"""How long to request the rest of an ended pod's log, because a lost machine does not answer."""
_BAD_REQUEST = 400
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)")
_BACK_SECONDS = 5


class Pod(FollowedNode):
    """Pod of a node. A thread copies each line of the pod's log once into the log of the node's launcher."""

    def __init__(self, cluster: Cluster, number: int, output: BinaryIO) -> None:
        super().__init__(number)
        self.state = PodState({})
        self.is_gone = False
        """Whether the pod was deleted or will never exist."""
        self.is_left = False
        """Whether the rest of the log is not needed."""
        self.noticed = math.inf
        """When the runner first saw the pod's end or deletion, because the cluster's times are whole seconds."""
        self.reason: Reason | None = None
        self._reason_since = 0.0
        self._cluster, self._output, self._log = cluster, output, PodLog()

    @property
    def has_ended(self) -> bool:
        """Whether no container runs, and none will run again."""
        return self.is_gone or self.state.has_ended

    def seen(self, raw: dict[str, object]) -> None:
        """Update the state from the pod's API object."""
        self.state = PodState(raw)
        if self.state.terminated or self.state.due:
            self.noticed = min(self.noticed, clock.monotonic())

    def wait_because(self, reason: Reason | None) -> None:
        """Record why the pod has not started. Raises OSError once the reason has lasted for its `seconds`."""
        before, self.reason = self.reason, reason or self.reason
        if reason and (before is None or before.key != reason.key):
            self._reason_since = clock.monotonic()
            self.notes.append(f"node {self.number} {reason.text}")
        elif reason and clock.monotonic() - self._reason_since >= reason.seconds:
            raise OSError(f"node {self.number} cannot start: {reason.text}")

    def idle(self) -> NodeView | None:
        """Return why the pod does not run, with the cluster's reason. Returns None if the pod runs."""
        if self.has_ended:
            return NodeView(self.number, idle="its pod has ended")
        why = f": {self.reason.text}" if self.reason else ""
        return None if self.state.is_running else NodeView(self.number, idle=f"its pod has not started{why}")

    def look(self, *, abort: bool) -> NodeView:
        """Inspect the processes in the pod. The user needs permission to create pods/exec."""
        command = node_view.command_inside(abort=abort)
        try:
            output = self._cluster.execute(self.state.name, self.state.trains, command, node_view.SECONDS)
        except (OSError, ValueError) as error:
            return NodeView(self.number, trouble=f"kubectl exec failed: {error}")
        return node_view.view(self.number, output)

    def describe(self, *, by_another: bool = False) -> NodeExit:
        """Return how the pod ended. `by_another` tells whether the controller ended it because another pod ended."""
        stopped = self.stopped or by_another
        return self.state.exit(self.number, self._cluster.namespace, stopped=stopped, is_gone=self.is_gone)

    def follow(self) -> NodeExit:
        """Copy the log until it ends or a write fails."""
        try:
            with self._output:  # closing flushes the buffer
                self._copy()
                self._output.write(self._log.finish())
        except OSError as error:
            self.failure = error
        return self.describe()

    def _copy(self) -> None:
        until = math.inf
        while not self.is_left:
            ended = self.has_ended  # before the request: the last request must begin after the end
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
                # Deleted pods and containers that never started have no log.
                if ended and (error.is_absence or error.status == _BAD_REQUEST):
                    return
                if clock.monotonic() > until:
                    self.notes.append(f"node {self.number}: the last output of pod {self.state.name} is lost: {error}")
                    return
            clock.sleep(AGAIN_SECONDS)


class PodLog:
    """Reader that returns each line of a log once, even if connections break at any byte.

    The kubelet begins each line with a timestamp in nanoseconds and its time zone, but `sinceTime` counts whole
    seconds. So each connection requests the log from 5 s before the latest line, because a clock may be set back. The
    reader skips repeated lines, which have the same timestamps in the same order.
    """

    def __init__(self) -> None:
        self._first = 0
        """First second that the next request covers; 0 before any line."""
        self._seen: list[tuple[int, bytes]] = []
        """Second and timestamp of each line since `_first`."""
        self._again: list[bytes] = []
        """Timestamps of lines that this connection has yet to repeat."""
        self._begun = bytearray()

    @property
    def since(self) -> str | None:
        """`sinceTime` of the next request, or None for the whole log."""
        return datetime.fromtimestamp(self._first, timezone.utc).isoformat() if self._first else None

    def new(self, blocks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the lines that no earlier connection returned, without timestamps."""
        self._again = [stamp for _, stamp in self._seen]
        begun = bytearray()
        for block in blocks:
            begun += block
            self._begun = begun  # this connection repeats an unfinished line of the last connection
            if b"\n" in block:
                *lines, rest = bytes(begun).split(b"\n")
                self._begun = begun = bytearray(rest)
                yield b"".join(map(self._text, lines))

    def finish(self) -> bytes:
        """If the log's last line has no newline, return the line with a newline. Otherwise return nothing."""
        return self._text(bytes(self._begun))

    def _text(self, line: bytes) -> bytes:
        stamp, space, text = line.partition(b" ")
        found = _STAMP.fullmatch(stamp)
        if not found or not space:  # an error message of a proxy or the API server
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
