"""Runs whose runner was killed: what is left of them is ended, and their records are made of what was printed.

A record may come from a stranger. What it names is used only where this user has started the run (`started`), or says
that it is to be used. What is ended is found by the run's id, which has to be one, and the name of its folder. Nothing
is ended while the runner lives, or anybody who holds the run, and nothing of a run that another machine's runner has
started.
"""

import re
import shlex
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from runner import targets
from runner.core.errors import KitError, RequestError, reason_of
from runner.core.text import one_line
from runner.execution import started
from runner.execution.disk import describe_error
from runner.records.finalize import finalize_ended
from runner.records.folder import RunFolder
from runner.records.listing import run_folders
from runner.records.parse import collect
from runner.records.provenance import is_alive
from runner.records.schema import FINISHED, Launch, Record
from runner.targets.children import orphans
from trainkit import files

FINISHED_NOW, WOULD_FINISH, RUNS, LEFT = "finished", "would finish", "still runs", "left as it is"
_WATCHED = "kubernetes"
"""The target of runs by hand that are only watched: they are made by `runner collect` of a manifest."""


@dataclass(frozen=True)
class Found:
    """A run that has no record of its end, and what was done about it: one of the words above, and a sentence."""

    path: Path
    what: str
    text: str


class _StillRuns(Exception):  # noqa: N818 - it is no error
    """A run is not finished, because somebody is still at it."""


def recover(results: Path, trusted: Collection[Path] = (), *, dry_run: bool = False) -> Iterator[Found]:
    """Finish each run below a folder whose runner is dead, and yield what was done.

    Of the `trusted` folders a person says that what their runs name is to be used. With `dry_run` nothing is changed.
    Raises RequestError if there is no such folder, or no such run in it.
    """
    if not results.is_dir():
        raise RequestError(f"{results}: there is no such folder")
    notes: list[str] = []
    paths = [Path(entry.path) for entry in run_folders(results, notes)]
    by_a_person = {path.resolve() for path in trusted}
    if unknown := by_a_person - {path.resolve() for path in paths}:
        raise RequestError(f"--trust {min(unknown)}: it is no run's folder in {results}")
    for path in paths:
        if found := find_out(path, dry_run=dry_run, is_trusted=path.resolve() in by_a_person):
            yield found
    for note in notes:
        place, _, why = note.partition(": left out: ")
        yield Found(Path(place), LEFT, why)


def find_out(path: Path, *, dry_run: bool = False, is_trusted: bool = False) -> Found | None:
    """Finish one run if its runner is dead; None for a run that has ended, and for a folder that is no run."""
    try:
        return _recover(path, dry_run=dry_run, is_trusted=is_trusted)
    except _StillRuns as why:
        return Found(path, RUNS, one_line(why))
    except OSError as error:
        return Found(path, LEFT, one_line(describe_error(error, path)))
    except (KitError, ValueError) as error:
        return Found(path, LEFT, one_line(error))


def _recover(path: Path, *, dry_run: bool, is_trusted: bool) -> Found | None:
    folder = RunFolder(path)
    if _has_ended(folder):
        return None
    try:
        launch = folder.launch()
    except (OSError, ValueError) as error:
        raise RequestError(f"request/launch.json: {reason_of(error)}: it says how the run was started") from None
    _require_dead(folder, launch)
    if not is_trusted and not started.is_own(path) and (named := _named(folder, launch)):
        own, results = shlex.quote(str(path)), shlex.quote(str(path.parent))
        raise RequestError(
            f"nothing here shows that you have started it, so nothing is ended: runner recover {results} --trust {own} "
            f"ends {named}; runner collect {own} makes its record and ends nothing"
        )
    if dry_run:
        return Found(path, WOULD_FINISH, f"its runner is dead ({_runner(launch)})")
    try:
        with folder.held_alone():
            if _has_ended(folder):  # another `recover` was faster
                return None
            record = _finish(folder, launch)
    except BlockingIOError:
        raise _StillRuns("somebody holds it: its runner, a node of it, or another runner recover") from None
    kept = f"{record.events['seen']:,} events of {len(record.ranks)} ranks are kept"
    return Found(path, FINISHED_NOW, f"{record.status}{f': {record.reason}' if record.reason else ''}; {kept}")


def words_of(launch: Launch) -> list[str]:
    """Return the options of a launch as the words of a command; RequestError for what can be none."""
    words = []
    for name, value in launch.options.items():
        if not isinstance(value, str | int | float):
            why = f"option {one_line(name, 40)} of its target is no text and no number"
            raise RequestError(f"request/launch.json: {why}")
        words.append(f"{name}={str(value).lower() if isinstance(value, bool) else value}")
    return words


def require_own_id(folder: RunFolder, launch: Launch) -> None:
    """Raise ValueError if a run's id is none, or not the name of its folder: by it, its processes are found."""
    pattern = rf"\d{{8}}T\d{{6}}Z-{re.escape(launch.target)}-[0-9a-f]{{8}}"
    if not re.fullmatch(pattern, launch.id) or folder.path.absolute().name != launch.id:
        raise ValueError(f"its folder does not have the name of the run, which is {one_line(launch.id, 80)}")


def _has_ended(folder: RunFolder) -> bool:
    """Return whether it is a finished run, or none at all."""
    try:
        return folder.read().status in FINISHED
    except FileNotFoundError:
        if files.is_file(folder.path / "request" / "launch.json"):
            return False  # it was killed before it was begun
        if files.is_folder(folder.path / "raw"):
            raise RequestError(
                "it has no run.json and no request/launch.json, which say what was run: its raw files stay in raw/"
            ) from None
        return True
    except (OSError, ValueError) as error:
        mend = f"runner collect {shlex.quote(str(folder.path))} makes it again"
        raise RequestError(f"run.json: {reason_of(error)}; {mend}") from None


def _require_dead(folder: RunFolder, launch: Launch) -> None:
    """Raise an error for a run whose runner lives or may live."""
    require_own_id(folder, launch)
    if launch.by_hand and launch.target != _WATCHED:
        if folder.is_held():  # by any of its nodes, also one in a container, where hosts have names of their own
            raise _StillRuns("a node of it still runs")
        return
    alive = is_alive(launch.runner)
    if alive is None:
        host = one_line(launch.runner.get("host"), 80)
        raise RequestError(
            f"its runner was on another machine; on {host}: runner recover {shlex.quote(str(folder.path.parent))}"
        )
    if alive:
        raise _StillRuns(_runner(launch))


def _runner(launch: Launch) -> str:
    return f"runner {one_line(launch.runner.get('pid'), 20)}"


def _finish(folder: RunFolder, launch: Launch) -> Record:
    """End what is left of a run, and make its record; the runner may have died while it wrote that itself."""
    outcome = folder.outcome()
    if outcome is None and (target := _target(launch)):
        targets.load(target, [] if launch.by_hand else words_of(launch)).cleanup(folder)
    folder.remove_unfinished()
    if launch.by_hand and launch.target != _WATCHED and outcome is None:
        return finalize_ended(folder)
    folder.name_outputs()
    record = collect(folder, launch, outcome)
    folder.finish(record)
    if record.status == "completed":
        started.forget(folder.path)
    return record


def _named(folder: RunFolder, launch: Launch) -> str:
    """Return what ending a run would use of its record, without using it; empty if there is nothing to end."""
    target = _target(launch)
    if target is None or folder.outcome() is not None:
        return ""
    if launch.by_hand or (target == "local" and not launch.options):
        left = ", ".join(str(process.pid) for process in orphans(launch.id))
        return left and f"the processes {left} of this machine"
    return one_line(" ".join([f"what has its id on target {target}", *words_of(launch)]), 600)


def _target(launch: Launch) -> str | None:
    """Return the target whose processes a run may have left; None for jobs that were only watched, which go on."""
    if launch.by_hand:
        return None if launch.target == _WATCHED else "local"
    return launch.target
