"""Finish runs whose runner was killed: end the remaining processes, and make the records from the logs.

Processes are found by the run id, which is the name of the run's folder. No process is ended while the runner lives or
another process holds the run's lock, or if the runner was on another machine.

Hosts, configurations, jobs and containers in a record are trusted only if this user started the run on this machine.
The proof is a file with the path of the run's folder, in `$XDG_STATE_HOME/distributed-experiment-kit/started` (by
default below `~/.local/state`). The file is removed when the run has completed.
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
    """An unfinished run, the action (`what`), such as `FINISHED_NOW`, and a sentence about the action."""

    path: Path
    what: str
    text: str


class _StillRuns(Exception):  # noqa: N818 - not an error
    pass


def recover(results: Path, *, dry_run: bool = False) -> Iterator[Found]:
    """Finish each run below `results` whose runner is dead, and yield the outcome. With `dry_run`, change nothing.

    Raises RequestError if the folder `results` does not exist.
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
            why = str(error) if isinstance(error, _StillRuns) else "locked by its runner, a node or another recover"
            yield Found(folder.path, RUNS, why)
        except (OSError, KitError, ValueError) as error:
            yield Found(folder.path, LEFT, describe_error(error, folder.path))
    for note in notes:
        place, _, why = note.partition(": left out: ")
        yield Found(Path(place), LEFT, why)


def _recover(folder: RunFolder, *, dry_run: bool) -> str:
    try:
        launch = folder.launch()
    except (OSError, ValueError) as error:
        raise RequestError(f"request/launch.json: {reason_of(error)}: needed to finish the run") from None
    # Cluster jobs that `runner collect` only watches must go on.
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
    if launch.by_hand and target:
        if folder.is_held():  # unlike pid and host, the lock also works for nodes in containers
            raise _StillRuns("one of its nodes still runs")
    elif (alive := is_alive(launch.runner)) is None:
        again = f"runner recover {shlex.quote(str(folder.path.parent))}"
        raise RequestError(f"its runner was on another machine: on {launch.runner.get('host')}, run: {again}")
    elif alive:
        raise _StillRuns(f"runner {launch.runner.get('pid')}")
    if target not in (None, "local") and folder.outcome() is None and not is_own(folder.path):
        again = f"to make its record, run: runner collect {shlex.quote(str(folder.path))}"
        raise RequestError(f"no proof here that you started it on target {target}, so nothing is ended: {again}")


def _finish(folder: RunFolder, launch: Launch, target: str | None) -> Record:
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
    """Return the options of a launch as command-line words, `name=value`."""
    values = launch.options.items()
    return [f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in values]


def _has_ended(folder: RunFolder) -> bool:
    try:
        return folder.read().status in FINISHED
    except FileNotFoundError:  # a runner that was killed early leaves a request without a record
        return not ((folder.path / "request" / "launch.json").is_file() or folder.raw.is_dir())
    except (OSError, ValueError) as error:
        again = f"to make it again, run: runner collect {shlex.quote(str(folder.path))}"
        raise RequestError(f"run.json: {reason_of(error)}; {again}") from None


def remember(run: Path) -> None:
    """Store a proof that this user started a run. Without the proof, `recover` ends a run only on target local."""
    with suppress(OSError):
        _note(run).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _note(run).write_bytes(os.fsencode(run.resolve()))


def forget(run: Path) -> None:
    """Remove the file that `remember` wrote for a run."""
    with suppress(OSError):
        _note(run).unlink()


def is_own(run: Path) -> bool:
    """Return whether this user started the run."""
    try:
        return _note(run).read_bytes() == os.fsencode(run.resolve())
    except OSError:
        return False


def _note(run: Path) -> Path:
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111 - never raises
    return Path(base).absolute() / "distributed-experiment-kit" / "started" / run.name
