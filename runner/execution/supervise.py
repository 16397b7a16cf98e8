"""One run from its start to its record: start, follow, stop, record."""

from abc import ABC, abstractmethod
from contextlib import ExitStack, suppress

from runner.core import clock
from runner.core.errors import KitError
from runner.core.layout import Layout
from runner.execution.disk import Reserve, describe_error, what_is_lost
from runner.execution.hangs.watch import Watch
from runner.execution.launch import utc_now
from runner.execution.observer import Observer
from runner.execution.recover import forget, remember
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
"""How often to check that the folder is still there and can be written."""
MOST_LOST = 3
"""Failed checks in a row that end a run: a disk may be full for a moment."""


class Life(ABC):
    """What `runner run`, `runner node` and `runner collect` do differently with a run."""

    nodes: tuple[int, ...] | None = None
    """The nodes that are followed; None if all are."""
    guard: tuple[str, list[str]] | None = None
    """The target and its options, for the watchdog that cleans up if the runner is killed; None if nothing starts."""

    def __init__(self, folder: RunFolder, launch: Launch) -> None:
        self.folder, self.launch = folder, launch
        self.timeout_seconds = launch.timeout_seconds

    @abstractmethod
    def start(self) -> Handle:
        """Start the run, or begin to watch it; OSError or KitError if that fails."""

    def cleanup(self) -> None:  # noqa: B027 - most have nothing to do
        """End what an interrupted or failed start has left; OSError or KitError if that is not possible."""

    def keep(self, outcome: Outcome) -> Record:
        """Write how the run ended, and its record; OSError, ValueError or KitError if that fails."""
        self.folder.keep_outcome(outcome)
        record = collect(self.folder, self.launch, outcome)
        self.folder.finish(record)
        return record


def supervise(life: Life, observer: Observer, interrupts: Interrupts) -> Record:
    """Carry out one run and return its record, however it ends: done, failed, out of time, or interrupted."""
    folder, launch = life.folder, life.launch
    with ExitStack() as stack:
        with suppress(OSError):  # a folder that is gone is reported below
            stack.enter_context(folder.held())  # so that `recover` does not take the runner for dead
        if life.guard:
            remember(folder.path)
        outcome = _carry_out(life, observer, interrupts)
        try:
            record = life.keep(outcome)
        except (OSError, ValueError, KitError) as error:  # the run is reported all the same
            status = INTERRUPTED if outcome.stopped_because == INTERRUPTED else "failed"
            why = f"its record could not be written: {describe_error(error, folder.path)}"
            record = Record(launch=launch, status=status, reason=why, outcome=outcome)
        if record.status == "completed":
            forget(folder.path)
        return record


def _carry_out(life: Life, observer: Observer, interrupts: Interrupts) -> Outcome:
    folder, launch, began = life.folder, life.launch, clock.monotonic()
    guard, handle, watch, because, stuck = None, None, None, None, None
    with ExitStack() as ending:
        try:
            # Before `raising`: a signal in the midst of it would lose the watchdog, which takes the runner for dead.
            guard = watchdog.watch(life.guard[0], folder.path, life.guard[1]) if life.guard else None
            with interrupts.raising():
                ending.callback(Reserve(folder.path).free)
                handle = life.start()
                layout, on_gpu = Layout.parse(launch.layout), launch.device == "cuda"
                watch = Watch(handle, layout, launch.patience_seconds, life.nodes, on_gpu=on_gpu)
                ending.callback(watch.close)
                because = follow(handle, folder, began + life.timeout_seconds, observer, watch, interrupts)
                because = because or next((end.stopped_because for end in handle.exits if end.stopped_because), None)
        except KeyboardInterrupt:
            because = INTERRUPTED
        except (OSError, KitError) as error:
            because = f"could not be started or followed: {describe_error(error, folder.path)}"
        if because:
            observer.stopping(because)
            if watch and because in (INTERRUPTED, TIMED_OUT, HUNG):
                stuck = watch.last_look(folder, observer.note)
            because, exits = _stop(life, handle, because)
        else:
            exits = handle.exits if handle else []
        if guard:  # not after a defect of ours: then the watchdog ends what is left
            watchdog.release(guard)
        if because is None and any(end.code != 0 for end in exits):
            because = what_is_lost(folder.path)
        seconds = clock.monotonic() - began
    return Outcome(ended=utc_now(), wall_seconds=seconds, exits=exits, stopped_because=because, stuck=stuck)


def _stop(life: Life, handle: Handle | None, because: str) -> tuple[str, list[NodeExit]]:
    """End what was started; return the reason and how the nodes ended, one of them with what may be left."""
    left = ""
    try:
        handle.stop() if handle else life.cleanup()
    except (OSError, KitError) as error:
        left = describe_error(error, life.folder.path)
    exits = handle.exits if handle else []
    if left in because:  # also where the start has failed by it, which is said already
        return because, exits
    left = f"what is left of it could not be ended: {left}; look there for {life.launch.id}"
    if because not in (INTERRUPTED, TIMED_OUT, HUNG):
        return f"{because}; {left}", exits
    exits = exits or [NodeExit(node, stopped=True) for node in range(Layout.parse(life.launch.layout).nodes)]
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
        if because := TIMED_OUT if late else HUNG if watch.is_hung(now) else loss.found(now):
            return because
    return None


class _Loss:
    """Checks now and then that a run's folder is still there and can be written."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder, self._times, self._next = folder, 0, clock.monotonic() + LOOK_SECONDS

    def found(self, now: float) -> str | None:
        """Return what is lost, if several checks in a row have found it so."""
        if now <= self._next:
            return None
        lost = what_is_lost(self._folder.path)
        self._times = self._times + 1 if lost else 0
        self._next = now + LOOK_SECONDS
        return lost if self._times == MOST_LOST else None
