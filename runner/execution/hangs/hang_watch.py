"""Watch a run for hangs: report nodes missing at the rendezvous and ranks without progress."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from runner.core import clock
from runner.core.layout import Layout
from runner.core.text import listed
from runner.execution.hangs.diagnosis import STARTING, Heard, of_rendezvous, of_silence
from runner.execution.hangs.places import take_printed_stacks
from runner.records.events import Event
from runner.records.folder import RunFolder
from runner.records.schema import Launch, Stuck, StuckRank
from runner.targets.base import Handle, Line
from runner.targets.node_view import NodeView

RENDEZVOUS_SECONDS = 6.0
"""How long to wait for missing nodes or ranks before all nodes are inspected. An inspection takes some seconds."""
STARTING_SECONDS = 20.0
"""A launcher that is still starting is reported only after this time, since starting is slow on a busy machine."""
PATIENCE_SECONDS = 60.0
PATIENCE_TIMES = 10.0
"""Ranks are inspected after the longer of `PATIENCE_SECONDS` and `PATIENCE_TIMES` the longest earlier silence."""
QUIET_SECONDS = 10.0
"""Ranks that have been silent this long are inspected before their run is stopped."""
_MOST_STACKS = 8
_QUOTED = re.compile(r'"[^"]{0,500}"')


class Watch:
    """Watches one run, or one node if this runner follows only that node."""

    def __init__(self, handle: Handle, launch: Launch, *, is_one_node: bool = False) -> None:
        self._handle, self._agreed, self._on_gpu = handle, launch.patience_seconds, launch.device == "cuda"
        self._looked = clock.monotonic()
        self._heard = Heard(Layout.parse(launch.layout), self._looked)
        self._nodes = 1 if is_one_node else self._heard.layout.nodes
        self._is_ours = is_one_node or not launch.by_hand
        """Whether ranks may be aborted: `runner collect` must not end a job that somebody else started."""
        self._pool = ThreadPoolExecutor(1)
        self._look: Future[list[NodeView]] | None = None
        self._said: list[str] = []
        self._all_there: float | None = None
        """When all nodes were first seen to have ranks, although some nodes have printed nothing."""
        self._silence: float | None = None
        """Start of the silence in which the ranks were last inspected."""

    def take(self, line: Line, event: Event | None) -> None:
        """Record a line that a process printed, and its event if it has one."""
        self._heard.take(line, event, clock.monotonic())

    def notes(self) -> Iterator[str]:
        """Yield new messages about a hang, without blocking. Call this regularly."""
        heard, now, waits = self._heard, clock.monotonic(), self._is_waiting
        if self._look is not None:
            if self._look.done():
                views = [] if self._look.exception() else self._look.result()
                self._look = None
                yield from self._tell(views, now)
        elif waits and now - self._looked > RENDEZVOUS_SECONDS:
            self._looked = now
            # `look` is slow, and not needed if idle nodes explain the wait.
            self._look = self._pool.submit(lambda: self._handle.idle() or self._handle.look())
        elif not waits and self._silence != heard.last and self._is_silent(now):
            self._silence = heard.last
            self._look = self._pool.submit(self._handle.look)

    def is_hung(self, now: float) -> bool:
        """Return whether all ranks have been silent for longer than `patience_seconds` of the launch.

        Silence counts once a rank has printed or all nodes have ranks. Earlier, nodes may wait in a queue, and the
        rendezvous has its own timeout.
        """
        since = self._heard.last if self._heard.when else self._all_there
        return self._agreed is not None and since is not None and now - since > self._agreed

    def last_look(self, folder: RunFolder, say: Callable[[str], None]) -> Stuck | None:
        """Return where the ranks are, and report their stacks. Returns None if ranks still print.

        Call this before the run is stopped. A rank whose stack cannot be read gets SIGABRT and prints the
        stack, unless somebody else started the run.
        """
        heard, now, waits = self._heard, clock.monotonic(), self._is_waiting
        quiet = now - heard.last
        if quiet < min(QUIET_SECONDS, self._agreed or QUIET_SECONDS) and not (self._said and waits):
            return None
        views = self._handle.look(abort=self._is_ours)
        if waits and (says := of_rendezvous(heard, views)):
            return Stuck(quiet, says)
        take_printed_stacks(folder, heard.layout, views)
        stuck = of_silence(heard, views, now, on_gpu=self._on_gpu)
        for words in _stacks(stuck):
            say(words)
        return stuck

    def close(self) -> None:
        """End the thread that inspects the nodes."""
        self._pool.shutdown(cancel_futures=True)

    @property
    def _is_waiting(self) -> bool:
        return len(self._heard.nodes) < self._nodes and self._all_there is None

    def _is_silent(self, now: float) -> bool:
        heard = self._heard
        usual = RENDEZVOUS_SECONDS if heard.joining else max(PATIENCE_SECONDS, PATIENCE_TIMES * heard.longest)
        return now - heard.last > usual

    def _tell(self, views: list[NodeView], now: float) -> Iterator[str]:
        heard, says, stacks = self._heard, [], []
        head = f"waiting for the rendezvous since {now - heard.began:.0f} s"
        if self._is_waiting:
            says = of_rendezvous(heard, views)
            if views and not says and all(view.seen and view.seen.ranks for view in views):
                self._all_there = now
            if says and says[0].endswith(STARTING) and now - heard.began < STARTING_SECONDS:
                return
        elif self._is_silent(now):
            stuck = of_silence(heard, views, now, on_gpu=self._on_gpu)
            head, says, stacks = f"no rank printed for {stuck.quiet_seconds:.0f} s", stuck.says, _stacks(stuck)
        kinds = [_QUOTED.sub("", words) for words in says]  # a pod that is started again has another name
        if says and kinds != self._said:
            self._said = kinds
            yield f"{head}: {says[0]}"
            yield from (f"  {words}" for words in says[1:])
            yield from stacks


def _stacks(stuck: Stuck) -> list[str]:
    """Format each distinct stack with its ranks. The first stack is that of the rank that the others wait for."""
    alike: dict[tuple[str, ...], list[StuckRank]] = defaultdict(list)
    for rank in sorted(stuck.ranks, key=lambda rank: rank.rank != stuck.rank):
        alike[tuple(rank.stack)].append(rank)
    alike.pop((), None)
    says = []
    for stack, ranks in list(alike.items())[:_MOST_STACKS]:
        first = ranks[0]
        last = f"last event {first.event}, {first.quiet_seconds:.0f} s ago" if first.event else "no event"
        says.append(f"  rank {listed(rank.rank for rank in ranks)}: {last}; stack, innermost line first:")
        says += [f"    {frame}" for frame in stack]
    return says
