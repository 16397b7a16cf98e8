"""Plan -> Records: one run after the other, each with its folder, its deadline and its record."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.core.errors import Interrupted, RequestError, RunError
from runner.core.text import listed
from runner.definitions.plan import Plan, Run
from runner.execution.disk import NEXT_RUN_BYTES, what_is_lost
from runner.execution.launch import describe_launch, describe_surroundings
from runner.execution.missing import There, require_same, require_same_inputs
from runner.execution.observer import Observer, guarded
from runner.execution.signals import Interrupts
from runner.execution.supervise import INTERRUPTED, Life, keep_whole, supervise
from runner.records.folder import RunFolder, begin, require_writable
from runner.records.schema import Launch, Record
from runner.targets.base import LaunchSpec, Target

NOT_STARTED = "the further runs are not started"


@dataclass(frozen=True)
class Job:
    """A run with all that starting it takes; `words` are the target's options, as `name=value`, for the watchdog."""

    run: Run
    spec: LaunchSpec
    target: Target[Any]
    words: list[str]
    surroundings: dict[str, Any]
    diff: str

    def describe(self) -> Launch:
        """Describe the run as its record shows it."""
        target = self.target
        return describe_launch(self.run, target.name, self.spec.nodes, self.surroundings, target.options)


def execute(
    plan: Plan,
    target: Target[Any],
    words: list[str],
    results: Path,
    observer: Observer,
    interrupts: Interrupts,
    there: There | None = None,
) -> list[Record]:
    """Carry out all runs in order; further repeats of a cell that failed are left out, and the observer is told.

    The words are the target's options, as `name=value`, for the watchdog. Raises Interrupted after a signal, if what
    was started has ended and its record is written; RunError if a later run's folder cannot be made, for example on a
    full disk; and what `missing` raises if the runs differ from those that are `there`.
    """
    jobs = prepare(plan, target, words, results, observer, interrupts)
    require_same((job.describe() for job in jobs), there or {})
    records = carry_out(jobs, results, observer, interrupts)
    require_same_inputs(records, there or {})
    return records


def prepare(
    plan: Plan, target: Target[Any], words: list[str], results: Path, observer: Observer, interrupts: Interrupts
) -> list[Job]:
    """Do all that comes before the first start: look whether it can be carried out, build the image, describe it all.

    The arguments are those of `execute`; nothing is written below `results`.
    """
    specs = [target.spec(run) for run in plan.runs]
    for spec in specs:
        target.preflight(spec)
    require_writable(results)  # before minutes are spent on an image
    surroundings, diff = _surroundings(plan, target, specs[0], guarded(observer), interrupts)
    return [
        Job(run, spec, target, words, surroundings[run.cell.program.name], diff)
        for run, spec in zip(plan.runs, specs, strict=True)
    ]


def carry_out(jobs: list[Job], results: Path, observer: Observer, interrupts: Interrupts) -> list[Record]:
    """Carry out prepared runs in order, as `execute` does."""
    observer = guarded(observer)
    records: list[Record] = []
    failed: set[str] = set()
    for number, job in enumerate(jobs, 1):
        run = job.run
        if str(run.cell) in failed:
            observer.left_out(run)
            continue
        launch = job.describe()
        folder = _begin(results, launch, job.spec, job.diff, earlier=bool(records))
        observer.begin(number, len(jobs), run, folder.path)
        if launch.masked:
            observer.note(f"masked in the record: {listed(launch.masked)}")
        record = supervise(life_of(job, folder, launch), folder, launch, observer, interrupts)
        observer.end(run, record, folder.path)
        records.append(record)
        if record.status == INTERRUPTED or interrupts.asked:
            raise Interrupted
        if record.status != "completed":
            failed.add(str(run.cell))
            if number < len(jobs) and (lost := what_is_lost(results, NEXT_RUN_BYTES)):
                raise RunError(f"{lost}; {NOT_STARTED}")
    return records


def _surroundings(
    plan: Plan, target: Target[Any], spec: LaunchSpec, observer: Observer, interrupts: Interrupts
) -> tuple[dict[str, dict[str, Any]], str]:
    """Build the image if there is one; describe the surroundings of each program's runs, and the code's changes."""
    try:
        with interrupts.raising():
            image = target.image(spec, observer.note)
            of_programs, diff, why = {}, "", None
            for name, run in {run.cell.program.name: run for run in plan.runs}.items():
                surroundings, diff = describe_surroundings(run)
                of_programs[name] = {**surroundings, "image": image}
                why = surroundings["code"].get("git")
            if why:
                observer.note(f"{why}: the record does not say all that is changed in the code")
            return of_programs, diff
    except KeyboardInterrupt:
        raise Interrupted from None


def _begin(results: Path, launch: Launch, spec: LaunchSpec, diff: str, *, earlier: bool) -> RunFolder:
    """Make a run's folder; if runs were carried out before, a failure is not one of the request."""
    try:
        return begin(results, launch, spec.text(launch.id), diff, spec.file)
    except RequestError as error:
        if not earlier:
            raise
        raise RunError(f"{error}; {NOT_STARTED}") from None


def life_of(job: Job, folder: RunFolder, launch: Launch) -> Life:
    """Describe the life of a prepared run."""
    return Life(
        start=lambda: job.target.start(job.spec, folder),
        stop=lambda handle: handle.stop() if handle else job.target.cleanup(folder),
        keep=lambda outcome: keep_whole(folder, launch, outcome),
        timeout_seconds=launch.timeout_seconds,
        watched_as=(job.target.name, job.words),
    )
