"""Plan -> Records: one run after the other, each with its folder, its deadline and its record."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.core.errors import Interrupted, RequestError, RunError
from runner.core.text import listed
from runner.definitions.plan import Plan, Run
from runner.execution import missing
from runner.execution.disk import NEXT_RUN_BYTES, what_is_lost
from runner.execution.launch import describe_launch, describe_surroundings
from runner.execution.observer import Observer, guarded
from runner.execution.signals import Interrupts
from runner.execution.supervise import INTERRUPTED, Life, supervise
from runner.records.folder import RunFolder, begin, require_writable
from runner.records.schema import Launch, Record
from runner.targets.base import Handle, LaunchSpec, Target

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


class _Life(Life):
    def __init__(self, job: Job, folder: RunFolder, launch: Launch) -> None:
        super().__init__(folder, launch)
        self._job = job
        self.guard = (job.target.name, job.words)

    def start(self) -> Handle:
        return self._job.target.start(self._job.spec, self.folder)

    def cleanup(self) -> None:
        self._job.target.cleanup(self.folder)


def execute(
    plan: Plan,
    target: Target[Any],
    words: list[str],
    results: Path,
    observer: Observer,
    interrupts: Interrupts,
    there: missing.There | None = None,
) -> list[Record]:
    """Carry out all runs in order; further repeats of a cell that failed are left out, and the observer is told.

    Raises Interrupted after a signal, once what was started has ended and its record is written; RunError if a later
    run's folder cannot be made, for example on a full disk; and what `missing` raises if the runs differ from those
    that are `there`.
    """
    jobs = prepare(plan, target, words, results, observer, interrupts)
    if there:
        planned = [Record(launch=job.describe(), status="running") for job in jobs]
        missing.require_same(planned, there, missing.facts_before, RequestError)
    records = carry_out(jobs, results, observer, interrupts)
    completed = [record for record in records if record.status == "completed"]
    missing.require_same(completed, there or {}, missing.facts_after, RunError)
    return records


def prepare(
    plan: Plan, target: Target[Any], words: list[str], results: Path, observer: Observer, interrupts: Interrupts
) -> list[Job]:
    """Check that the plan can be carried out, build the image, describe it all; nothing is written below `results`."""
    observer = guarded(observer)
    specs = [target.spec(run) for run in plan.runs]
    for spec in specs:
        target.preflight(spec)
    require_writable(results)  # before minutes are spent on an image
    try:
        with interrupts.raising():
            image = target.image(specs[0], observer.note)
            programs = {run.cell.program.name: run for run in plan.runs}
            described = {name: describe_surroundings(run) for name, run in programs.items()}
    except KeyboardInterrupt:
        raise Interrupted from None
    jobs = []
    for run, spec in zip(plan.runs, specs, strict=True):
        surroundings, diff = described[run.cell.program.name]
        jobs.append(Job(run, spec, target, words, {**surroundings, "image": image}, diff))
    if why := jobs[0].surroundings["code"].get("git"):
        observer.note(f"{why}: the record does not say all that is changed in the code")
    return jobs


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
        try:
            folder = begin(results, launch, job.spec.text(launch.id), job.diff, job.spec.file)
        except RequestError as error:
            if not records:
                raise
            raise RunError(f"{error}; {NOT_STARTED}") from None
        observer.begin(number, len(jobs), run, folder.path)
        if launch.masked:
            observer.note(f"masked in the record: {listed(launch.masked)}")
        record = supervise(_Life(job, folder, launch), observer, interrupts)
        observer.end(run, record, folder.path)
        records.append(record)
        if record.status == INTERRUPTED or interrupts.asked:
            raise Interrupted
        if record.status != "completed":
            failed.add(str(run.cell))
            if number < len(jobs) and (lost := what_is_lost(results, NEXT_RUN_BYTES)):
                raise RunError(f"{lost}; {NOT_STARTED}")
    return records
