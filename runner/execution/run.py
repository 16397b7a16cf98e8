"""Carry out the runs of a plan, one after the other: Plan -> Records."""

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from runner.core import clock
from runner.core.errors import Interrupted, KitError, RunError
from runner.core.layout import Layout
from runner.core.text import listed
from runner.definitions.environment import values_of, variables_of
from runner.definitions.plan import Plan, Run
from runner.execution import missing
from runner.execution.disk import NEXT_RUN_BYTES, describe_error, reserved, what_is_lost
from runner.execution.hangs.hang_watch import Watch
from runner.execution.launch import describe_launch, describe_surroundings, utc_now
from runner.execution.observer import Observer, guarded
from runner.execution.recover import forget, remember, words_of
from runner.execution.signals import Interrupts
from runner.records.events import parse_event
from runner.records.folder import RunFolder, begin, require_writable
from runner.records.parse import collect
from runner.records.schema import Launch, NodeExit, Outcome, Record
from runner.targets import watchdog
from runner.targets.base import Handle, LaunchSpec, Line, Target

INTERRUPTED, TIMED_OUT, HUNG = "interrupted", "timed_out", "hung"
CHECK_SECONDS = 2.0
"""Interval of the checks that the folder can still be written."""
MOST_LOST = 3
"""A run is ended after this many failed checks in a row, since a disk may be full only for a moment."""


@dataclass(frozen=True)
class Job:
    """A run that is ready to start."""

    run: Run
    spec: LaunchSpec
    target: Target[Any]
    surroundings: dict[str, Any]
    diff: str

    def describe(self) -> Launch:
        """Return the launch of the run, with a new id."""
        target = self.target
        return describe_launch(self.run, target.name, self.spec.nodes, self.surroundings, target.options)


def execute(
    plan: Plan,
    target: Target[Any],
    results: Path,
    observer: Observer,
    interrupts: Interrupts,
    there: missing.There | None = None,
) -> list[Record]:
    """Carry out all runs in order. After a failure, skip further repeats of the cell.

    After a signal, raises Interrupted once the current run has ended and has its record. Raises RunError if the disk is
    full before a run other than the first. If runs differ from those in `there`, raises the errors of
    `missing.require_same`.
    """
    jobs = prepare(plan, target, results, observer, interrupts)
    missing.require_same([Record(launch=job.describe(), status="running") for job in jobs], there or {})
    records = carry_out(jobs, results, observer, interrupts)
    missing.require_same(records, there or {})
    return records


def prepare(plan: Plan, target: Target[Any], results: Path, observer: Observer, interrupts: Interrupts) -> list[Job]:
    """Check that the plan can be carried out, and build the image. Nothing is written to `results`."""
    observer = guarded(observer)
    specs = [target.spec(run) for run in plan.runs]
    for run, spec in zip(plan.runs, specs, strict=True):
        values_of(variables_of(run.cell.args))  # refuses a secret that this shell lacks
        target.preflight(spec)
    require_writable(results)  # before minutes are spent on an image
    with interrupts.ending():
        image = target.image(specs[0], observer.note)
        programs = {run.cell.program.name: run for run in plan.runs}
        described = {name: describe_surroundings(run) for name, run in programs.items()}
    jobs = []
    for run, spec in zip(plan.runs, specs, strict=True):
        surroundings, diff = described[run.cell.program.name]
        jobs.append(Job(run, spec, target, {**surroundings, "image": image}, diff))
    if why := jobs[0].surroundings["code"].get("git"):
        observer.note(f"{why}: the record may lack changes of the code")
    return jobs


def carry_out(jobs: list[Job], results: Path, observer: Observer, interrupts: Interrupts) -> list[Record]:
    """Carry out prepared runs in order, as `execute` does."""
    observer = guarded(observer)
    records: list[Record] = []
    failed: set[str] = set()
    for number, job in enumerate(jobs, 1):
        run, cell = job.run, str(job.run.cell)
        if records and (lost := what_is_lost(results, NEXT_RUN_BYTES)):
            raise RunError(f"{lost}; the remaining runs are not started")
        if cell in failed:
            observer.left_out(run)
            continue
        launch = job.describe()
        folder = begin(results, launch, job.spec.text(launch.id), job.diff, job.spec.file)
        observer.begin(number, len(jobs), run, folder.path)
        if launch.masked:
            observer.note(f"masked in the record: {listed(launch.masked)}")
        start = partial(job.target.start, job.spec, folder)
        record = supervise(Life(folder, launch, start, target=job.target), observer, interrupts)
        observer.end(run, record, folder.path)
        records.append(record)
        if record.status == INTERRUPTED or interrupts.asked:
            raise Interrupted
        if record.status != "completed":
            failed.add(cell)
    return records


def keep_record(folder: RunFolder, launch: Launch, outcome: Outcome) -> Record:
    """Write the outcome of a run and its record, and return the record."""
    folder.keep_outcome(outcome)
    record = collect(folder, launch, outcome)
    folder.finish(record)
    return record


@dataclass
class Life:
    """A run that has a folder and no record yet."""

    folder: RunFolder
    launch: Launch
    start: Callable[[], Handle]
    """Start the run, or begin to watch it; raises OSError or KitError."""
    keep: Callable[[RunFolder, Launch, Outcome], Record] = keep_record
    """Make the record; raises OSError, ValueError or KitError."""
    is_one_node: bool = False
    """Whether this runner starts and follows only one node."""
    target: Target[Any] | None = None
    """The target that cleans up after a failed start or a killed runner, or None if nothing is started."""
    timeout_seconds: float | None = None


def supervise(life: Life, observer: Observer, interrupts: Interrupts) -> Record:
    """Carry out one run and return its record, however the run ends."""
    folder, launch = life.folder, life.launch
    with ExitStack() as stack:
        with suppress(OSError):  # a missing folder is reported below
            stack.enter_context(folder.held())  # without the lock, `recover` takes the runner for dead
        if life.target:
            remember(folder.path)
        outcome = _live(life, observer, interrupts)
        try:
            record = life.keep(folder, launch, outcome)
        except (OSError, ValueError, KitError) as error:
            status = INTERRUPTED if outcome.stopped_because == INTERRUPTED else "failed"
            why = f"its record could not be written: {describe_error(error, folder.path)}"
            record = Record(launch=launch, status=status, reason=why, outcome=outcome)
        if record.status == "completed":
            forget(folder.path)
        return record


def _live(life: Life, observer: Observer, interrupts: Interrupts) -> Outcome:
    folder, launch, began = life.folder, life.launch, clock.monotonic()
    guard, handle, watch, because, stuck = None, None, None, None, None
    exits: list[NodeExit] = []
    with ExitStack() as ending:
        try:
            # Not in `raising`: if a signal lost the watchdog process here, that process would take the runner for dead.
            guard = watchdog.watch(life.target.name, folder.path, words_of(launch)) if life.target else None
            with interrupts.raising():
                ending.enter_context(reserved(folder.path))
                handle = life.start()
                watch = Watch(handle, launch, is_one_node=life.is_one_node)
                ending.callback(watch.close)
                deadline = began + (life.timeout_seconds or launch.timeout_seconds)
                because = follow(handle, folder, deadline, observer, watch, interrupts)
                if because is None:
                    exits = handle.exits
                    because = next((end.stopped_because for end in exits if end.stopped_because), None)
        except KeyboardInterrupt:
            because = INTERRUPTED
        except (OSError, KitError) as error:
            because = f"could not be started or followed: {describe_error(error, folder.path)}"
        if because:
            observer.stopping(because)
            if watch and because in (INTERRUPTED, TIMED_OUT, HUNG):
                stuck = watch.last_look(folder, observer.note)
            because, exits = _stop(life, handle, because)
        if guard:  # after an unexpected exception the watchdog must clean up
            watchdog.release(guard)
        if because is None and any(end.code != 0 for end in exits):
            because = what_is_lost(folder.path)
        seconds = clock.monotonic() - began
    return Outcome(ended=utc_now(), wall_seconds=seconds, exits=exits, stopped_because=because, stuck=stuck)


def _stop(life: Life, handle: Handle | None, because: str) -> tuple[str, list[NodeExit]]:
    left = ""
    try:
        if handle:
            handle.stop()
        elif life.target:
            life.target.cleanup(life.folder)
    except (OSError, KitError) as error:
        left = describe_error(error, life.folder.path)
    exits = handle.exits if handle else []
    if left in because:  # `left` is empty, or the start failed for the same reason
        return because, exits
    left = f"its remaining processes could not be ended: {left}; look there for {life.launch.id}"
    if because not in (INTERRUPTED, TIMED_OUT, HUNG):
        return f"{because}; {left}", exits
    exits = exits or [NodeExit(node, stopped=True) for node in range(Layout.parse(life.launch.layout).nodes)]
    for end in exits:
        end.why = end.why or left
    return because, exits


def follow(
    handle: Handle, folder: RunFolder, deadline: float, observer: Observer, watch: Watch, interrupts: Interrupts
) -> str | None:
    """Show the output of a run until the run ends. Returns the reason if the run must be stopped early, else None."""
    printed, losses, check = b"", 0, clock.monotonic() + CHECK_SECONDS
    for line in handle.lines():
        interrupts.raise_if_asked()
        if isinstance(line, Line):
            printed = _take(line, observer, watch) or printed
        elif line is not None:
            observer.note(line.text)
        else:
            if printed:
                observer.printed(printed)
            printed = b""
            for said in watch.notes():
                observer.note(said)
        now = clock.monotonic()
        if now > deadline + handle.waited_seconds:
            return TIMED_OUT
        if watch.is_hung(now):
            return HUNG
        if now > check:
            check, lost = now + CHECK_SECONDS, what_is_lost(folder.path)
            losses = losses + 1 if lost else 0
            if losses == MOST_LOST:
                return lost
    return None


def _take(line: Line, observer: Observer, watch: Watch) -> bytes:
    event = parse_event(line.text)
    watch.take(line, event)
    if event is not None:
        observer.event(event)
    return line.text if event is None and line.node == line.local_rank == 0 else b""
