"""A run that did not complete is started again: one record with two attempts, on which no claim rests.

Everything is taken from the record, and nothing may have changed since: the definition, the program's code, the image,
and the command that comes of them. Programs of the kit keep no checkpoints, so the run begins from its beginning.
"""

import shlex
from pathlib import Path
from typing import Any

from runner import targets
from runner.core.errors import Interrupted, RequestError, reason_of
from runner.core.text import one_line
from runner.definitions.plan import Plan
from runner.definitions.rerun import run_of
from runner.execution import started
from runner.execution.disk import describe_error
from runner.execution.observer import Observer, guarded
from runner.execution.recover import LEFT, RUNS, find_out, require_own_id, words_of
from runner.execution.run import life_of, prepare
from runner.execution.signals import Interrupts
from runner.execution.supervise import INTERRUPTED, supervise
from runner.records.folder import RunFolder
from runner.records.schema import FINISHED, Attempt, Launch, Record


def resume(path: Path, root: Path, observer: Observer, interrupts: Interrupts, *, is_trusted: bool = False) -> Record:
    """Start a run again that did not complete, and return its record.

    With `is_trusted` a person says that the target and the options of the record are to be used. Raises RequestError
    for a run that still runs or has completed, and if anything is no longer the same, before anything is changed or
    started; Interrupted after a signal.
    """
    observer = guarded(observer)
    folder = RunFolder(path)
    before = _ended(folder, is_trusted=is_trusted)
    if not is_trusted:
        _require_own(folder, before.launch)
    run = run_of(before.launch, root)
    words = words_of(before.launch)
    target = targets.load(before.launch.target, words)
    (job,) = prepare(Plan((run,), (run.cell,), ()), target, words, path.parent, observer, interrupts)
    try:
        with folder.held_alone():
            before = _ended(folder, is_trusted=is_trusted)  # another resume may have made an attempt meanwhile
            launch = job.describe()
            launch.id = before.launch.id
            ended = before.outcome.ended if before.outcome else None
            attempt = Attempt(before.launch.started, ended, before.status, before.reason)
            launch.attempts = [*before.launch.attempts, attempt]
            _require_same(before.launch, launch)
            folder.start_again(before, launch, job.spec.text(launch.id), job.diff, job.spec.file)
    except BlockingIOError:
        raise RequestError(_still_runs(path)) from None
    except OSError as error:
        raise RequestError(describe_error(error, path)) from None
    observer.begin(1, 1, run, path)
    record = supervise(life_of(job, folder, launch), folder, launch, observer, interrupts)
    observer.end(run, record, path)
    if record.status == INTERRUPTED or interrupts.asked:
        raise Interrupted
    return record


def _require_own(folder: RunFolder, launch: Launch) -> None:
    """Refuse what a stranger's record would start elsewhere, or with options; processes of this machine have none."""
    if (launch.target != "local" or launch.options) and not started.is_own(folder.path):
        words = one_line(" ".join([launch.target, *words_of(launch)]), 600)
        raise RequestError(
            f"{one_line(folder.path)}: nothing here shows that you have started it: "
            f"runner resume {shlex.quote(str(folder.path))} --trust starts it on target {words}"
        )


def _ended(folder: RunFolder, *, is_trusted: bool) -> Record:
    """Return the record of a run that has ended and not completed; one of a dead runner is made first."""
    path = folder.path
    if path.is_symlink():
        raise RequestError(f"{one_line(path)}: no run's folder: it is a link, and links are not followed")
    found = find_out(path, is_trusted=is_trusted)
    if found and found.what == RUNS:
        raise RequestError(_still_runs(path))
    if found and found.what == LEFT:
        raise RequestError(f"{one_line(path)}: {found.text}")
    try:
        record = folder.read()
        require_own_id(folder, record.launch)
    except (OSError, ValueError) as error:
        raise RequestError(one_line(f"{path}: no run's folder: {reason_of(error)}")) from None
    launch = record.launch
    if record.status == "completed":
        again = f"runner run {shlex.quote(launch.experiment)}"
        raise RequestError(f"{one_line(path)}: it has completed; another repeat is made by: {again}")
    if record.status not in FINISHED:
        raise RequestError(_still_runs(path))
    if launch.by_hand or launch.side:
        how = (
            "was started by hand: start it by hand again" if launch.by_hand else "belongs to a comparison: make another"
        )
        raise RequestError(f"{one_line(path)}: it {how}")
    return record


def _still_runs(path: Path) -> str:
    return f"{one_line(path)}: it still runs"


def _require_same(then: Launch, now: Launch) -> None:
    """Raise RequestError that names what is no longer the same."""
    images = [launch.image or {} for launch in (then, now)]
    facts: dict[str, list[Any]] = {
        f"the code of program {now.program}": [launch.code.get("sources_sha256") for launch in (then, now)],
        "the image": [image.get("id") or image.get("digest") or image.get("name") for image in images],
        "the command": [" ".join(map(str, launch.argv)) for launch in (then, now)],
        "the options of the target": [then.options, now.options],
    }
    changed = [
        f"{what} is no longer the same: {one_line(before, 80)}, now {one_line(after, 80)}"
        for what, (before, after) in facts.items()
        if before != after
    ]
    if changed:
        way_out = f"start a new run with: runner run {shlex.quote(now.experiment)}"
        raise RequestError(one_line(f"{'; '.join(changed)}: {way_out}", 600))
