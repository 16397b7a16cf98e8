"""Runs whose runner was killed: what is left of them is ended, and their records are made of what was printed.

What is ended is found by the run's id, the name of its folder. Nothing is ended while the runner lives, or anybody who
holds the run, and nothing of a run that another machine's runner has started.

A record names hosts, configurations, jobs and containers. They are used only where this user has started the run here:
a file in `distributed-experiment-kit/started` of `$XDG_STATE_HOME`, by default `~/.local/state`, has the path of its
folder. It goes when the run has completed.
"""

import os
import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from runner import targets
from runner.core.errors import KitError, RequestError, reason_of
from runner.execution.disk import describe_error
from runner.records.folder import RunFolder
from runner.records.listing import run_folders
from runner.records.parse import collect, finalize_ended
from runner.records.provenance import is_alive
from runner.records.schema import FINISHED, Launch, Record

FINISHED_NOW, WOULD_FINISH, RUNS, LEFT = "finished", "would finish", "still runs", "left as it is"


@dataclass(frozen=True)
class Found:
    """A run that has no record of its end, and what was done about it: one of the words above, and a sentence."""

    path: Path
    what: str
    text: str


class _StillRuns(Exception):  # noqa: N818 - it is no error
    """A run is not finished, because somebody is still at it."""


def recover(results: Path, *, dry_run: bool = False) -> Iterator[Found]:
    """Finish each run below a folder whose runner is dead, and yield what was done; with `dry_run` nothing is changed.

    Raises RequestError if there is no such folder.
    """
    if not results.is_dir():
        raise RequestError(f"{results}: there is no such folder")
    notes: list[str] = []
    for entry in run_folders(results, notes):
        folder = RunFolder(Path(entry.path))
        try:
            if not _has_ended(folder) and (said := _recover(folder, dry_run=dry_run)):
                yield Found(folder.path, WOULD_FINISH if dry_run else FINISHED_NOW, said)
        except (_StillRuns, BlockingIOError) as error:
            why = str(error) if isinstance(error, _StillRuns) else "its runner, a node of it, or a recover holds it"
            yield Found(folder.path, RUNS, why)
        except (OSError, KitError, ValueError) as error:
            yield Found(folder.path, LEFT, describe_error(error, folder.path))
    for note in notes:
        place, _, why = note.partition(": left out: ")
        yield Found(Path(place), LEFT, why)


def _recover(folder: RunFolder, *, dry_run: bool) -> str:
    """Finish one run if its runner is dead, and say how; empty if another `recover` was faster."""
    try:
        launch = folder.launch()
    except (OSError, ValueError) as error:
        raise RequestError(f"request/launch.json: {reason_of(error)}: it says how the run was started") from None
    # Jobs of a cluster that were only watched go on.
    target = launch.target if not launch.by_hand else None if launch.target == "kubernetes" else "local"
    _require_dead(folder, launch, target)
    if dry_run:
        return f"its runner is dead (runner {launch.runner.get('pid')})"
    with folder.held_alone():
        if _has_ended(folder):
            return ""
        record = _finish(folder, launch, target)
    if record.status == "completed":
        forget(folder.path)
    kept = f"{record.events['seen']:,} events of {len(record.ranks)} ranks are kept"
    return f"{record.status}{f': {record.reason}' if record.reason else ''}; {kept}"


def _require_dead(folder: RunFolder, launch: Launch, target: str | None) -> None:
    """Raise an error for a run whose runner lives or may live, and for one that may be somebody else's."""
    if launch.by_hand and target:
        if folder.is_held():  # by any of its nodes, also one in a container, where hosts have names of their own
            raise _StillRuns("a node of it still runs")
    elif (alive := is_alive(launch.runner)) is None:
        again = f"runner recover {shlex.quote(str(folder.path.parent))}"
        raise RequestError(f"its runner was on another machine; on {launch.runner.get('host')}: {again}")
    elif alive:
        raise _StillRuns(f"runner {launch.runner.get('pid')}")
    if target not in (None, "local") and folder.outcome() is None and not is_own(folder.path):
        again = f"runner collect {shlex.quote(str(folder.path))} makes its record"
        raise RequestError(
            f"nothing here shows that you have started it on target {target}, so nothing is ended: {again}"
        )


def _finish(folder: RunFolder, launch: Launch, target: str | None) -> Record:
    """End what is left of a run, and make its record; the runner may have died while it wrote that itself."""
    outcome = folder.outcome()
    if outcome is None and target:
        targets.load(target, [] if launch.by_hand else words_of(launch)).cleanup(folder)
    folder.remove_unfinished()
    if launch.by_hand and target and outcome is None:
        return finalize_ended(folder)
    folder.name_outputs()
    record = collect(folder, launch, outcome)
    folder.finish(record)
    return record


def words_of(launch: Launch) -> list[str]:
    """Return the options of a launch as the words of a command."""
    values = launch.options.items()
    return [f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in values]


def _has_ended(folder: RunFolder) -> bool:
    """Return whether it is a finished run, or none at all."""
    try:
        return folder.read().status in FINISHED
    except FileNotFoundError:  # a run that was killed before it was begun has a request
        return not ((folder.path / "request" / "launch.json").is_file() or folder.raw.is_dir())
    except (OSError, ValueError) as error:
        again = f"runner collect {shlex.quote(str(folder.path))} makes it again"
        raise RequestError(f"run.json: {reason_of(error)}; {again}") from None


def remember(run: Path) -> None:
    """Keep that this user starts a run; without it `runner recover` leaves other targets alone."""
    with suppress(OSError):
        _note(run).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _note(run).write_bytes(os.fsencode(run.resolve()))


def forget(run: Path) -> None:
    """Remove the file of a run that has completed."""
    with suppress(OSError):
        _note(run).unlink()


def is_own(run: Path) -> bool:
    """Return whether this user has started the run of this folder."""
    try:
        return _note(run).read_bytes() == os.fsencode(run.resolve())
    except OSError:
        return False


def _note(run: Path) -> Path:
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111 - never raises
    return Path(base).absolute() / "distributed-experiment-kit" / "started" / run.name
