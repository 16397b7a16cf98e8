"""One run from its start to its record: start, follow, stop, record; for `run`, `node` and `attach` alike."""

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from runner.core import clock
from runner.core.errors import KitError
from runner.core.layout import Layout
from runner.execution import started
from runner.execution.disk import Reserve, describe_error, what_is_lost
from runner.execution.hangs.watch import Watch
from runner.execution.launch import utc_now
from runner.execution.observer import Observer
from runner.execution.signals import Interrupts
from runner.records.events import parse_event
from runner.records.folder import RunFolder
from runner.records.parse import collect
from runner.records.schema import Launch, NodeExit, Outcome, Record
from runner.targets import watchdog
from runner.targets.base import Handle, Note

INTERRUPTED = "interrupted"
TIMED_OUT = "timed_out"
HUNG = "hung"
LOOK_SECONDS = 2.0
"""How often the folder is looked at: whether it is still there and can be written."""
MOST_LOST = 3
"""So many looks in a row have to find it lost: a disk may be full for a moment."""


@dataclass(frozen=True)
class Life:
    """What differs between the runs of `run`, `node` and `attach`.

    Args:
        start: starts the run, or begins to watch one that runs; OSError or KitError if that fails.
        stop: ends what was started; without a handle the start itself was interrupted or failed, and OSError or
            KitError says that nobody knows what is left of it.
        keep: writes the record; OSError, ValueError or KitError if that fails.
        timeout_seconds: after this time the run is stopped.
        nodes: the nodes that are followed; None if it is all of them.
        watched_as: the target and the words of its options, by which a watchdog cleans up if the runner is killed;
            None if nothing is started.
    """

    start: Callable[[], Handle]
    stop: Callable[[Handle | None], None]
    keep: Callable[[Outcome], Record]
    timeout_seconds: float
    nodes: tuple[int, ...] | None = None
    watched_as: tuple[str, list[str]] | None = None


def supervise(life: Life, folder: RunFolder, launch: Launch, observer: Observer, interrupts: Interrupts) -> Record:
    """Carry out one run and return its record, however it ends: done, failed, out of time, or interrupted."""
    with ExitStack() as stack:
        with suppress(OSError):  # it has gone already, which is reported below
            stack.enter_context(folder.held())  # so that no `recover` takes it for one whose runner is dead
        if life.watched_as:
            started.remember(folder.path)
        record = _supervise(life, folder, launch, observer, interrupts)
        if record.status == "completed":
            started.forget(folder.path)
        return record


def _supervise(life: Life, folder: RunFolder, launch: Launch, observer: Observer, interrupts: Interrupts) -> Record:
    began = clock.monotonic()
    guard, reserve, handle, because, watch, stuck, left = None, None, None, None, None, None, None
    try:
        # Before `raising`: a signal in the midst of it would lose the watchdog, which then takes the runner for dead.
        guard = watchdog.watch(life.watched_as[0], folder.path, life.watched_as[1]) if life.watched_as else None
        with interrupts.raising():
            reserve = Reserve(folder.path)
            handle = life.start()
            layout, on_gpu = Layout.parse(launch.layout), launch.device == "cuda"
            watch = Watch(handle, layout, launch.patience_seconds, life.nodes, on_gpu=on_gpu)
            because = follow(handle, folder, began + life.timeout_seconds, observer, watch, interrupts)
            because = because or next((end.stopped_because for end in handle.exits if end.stopped_because), None)
    except KeyboardInterrupt:
        because = INTERRUPTED
    except (OSError, KitError) as error:
        because = f"could not be started or followed: {_describe(error, folder)}"
    if because:
        observer.stopping(because)
        if watch and because in (INTERRUPTED, TIMED_OUT, HUNG):
            stuck = watch.last_look(folder, observer.note)
        left = _stop(life, handle, folder)
    if guard:
        watchdog.release(guard)
    exits = handle.exits if handle else []
    if because and left and left not in because:  # else the start has failed by it, and it is said already
        because, exits = _with_left(because, exits, f"what is left of it could not be ended: {left}", launch)
    if because is None and any(end.code != 0 for end in exits):
        because = what_is_lost(folder.path)
    if reserve:
        reserve.free()
    seconds = clock.monotonic() - began
    if watch:
        watch.close()
    outcome = Outcome(ended=utc_now(), wall_seconds=seconds, exits=exits, stopped_because=because, stuck=stuck)
    return _record(life, folder, launch, outcome)


def _stop(life: Life, handle: Handle | None, folder: RunFolder) -> str | None:
    """End what was started; say why not, if that fails: the run is recorded all the same."""
    try:
        life.stop(handle)
    except (OSError, KitError) as error:
        return _describe(error, folder)
    return None


def _with_left(because: str, exits: list[NodeExit], left: str, launch: Launch) -> tuple[str, list[NodeExit]]:
    """Add what may be left of a run to what its reason is made of; whoever looks for it finds it by the run's id."""
    left = f"{left}; look there for {launch.id}"
    if because not in (INTERRUPTED, TIMED_OUT, HUNG):
        return f"{because}; {left}", exits
    exits = exits or [NodeExit(node, stopped=True) for node in range(Layout.parse(launch.layout).nodes)]
    for end in exits:
        end.why = end.why or left
    return because, exits


def follow(
    handle: Handle, folder: RunFolder, deadline: float, observer: Observer, watch: Watch, interrupts: Interrupts
) -> str | None:
    """Show what comes until all has ended; return why the run has to be stopped before that, if it has to."""
    loss, printed = _Loss(folder), b""
    for line in handle.lines():
        interrupts.raise_if_asked()
        if isinstance(line, Note):
            observer.note(line.text)
        elif line is None:
            if printed:
                observer.printed(printed)
            printed = b""
            for said in watch.notes():
                observer.note(said)
        else:
            event = parse_event(line.text)
            watch.take(line, event)
            if event is not None:
                observer.event(event)
            elif line.node == line.local_rank == 0:
                printed = line.text
        now = clock.monotonic()
        late = now > deadline + handle.waited_seconds
        because = TIMED_OUT if late else HUNG if watch.is_hung(now) else loss.found(now)
        if because:
            return because
    return None


class _Loss:
    """Looks now and then whether a run's folder is still there and can be written."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._next = clock.monotonic() + LOOK_SECONDS
        self._times = 0

    def found(self, now: float) -> str | None:
        """Return what is lost, if that was so in several looks in a row."""
        if now <= self._next:
            return None
        lost = what_is_lost(self._folder.path)
        self._times = self._times + 1 if lost else 0
        self._next = now + LOOK_SECONDS
        return lost if self._times == MOST_LOST else None


def keep_whole(folder: RunFolder, launch: Launch, outcome: Outcome) -> Record:
    """Write how a run ended, and its record."""
    folder.keep_outcome(outcome)
    record = collect(folder, launch, outcome)
    folder.finish(record)
    return record


def _record(life: Life, folder: RunFolder, launch: Launch, outcome: Outcome) -> Record:
    """Write the record; if that fails, return one that says why, so that the run is reported all the same."""
    try:
        return life.keep(outcome)
    except (OSError, ValueError, KitError) as error:
        why = _describe(error, folder)
    status = INTERRUPTED if outcome.stopped_because == INTERRUPTED else "failed"
    return Record(launch=launch, status=status, reason=f"its record could not be written: {why}", outcome=outcome)


def _describe(error: Exception, folder: RunFolder) -> str:
    return describe_error(error, folder.path) if isinstance(error, OSError) else str(error)
