"""What the first run printed -> the dialects that read it, and whether its samples could be counted."""

from dataclasses import dataclass, replace

import msgspec

from runner.logs.dialect import LAUNCHERS, NONE, names
from runner.records.folder import RunFolder
from runner.records.observed import SAMPLE_SECONDS
from runner.records.parse import collect
from runner.records.schema import Record
from runner.tools.init.trial import Trial

FIELDS = {
    "last_train_loss": "loss",
    "final_eval": "evaluation",
    "throughput": "throughput",
    "epochs_seen": "epochs",
    "epochs_declared": "number of epochs",
}
"""The fields of a log for which a dialect is worth naming, as a person is shown them."""
MOST_DIALECTS = 3


@dataclass(frozen=True)
class Reading:
    """How a program's output is read: `dialects` is empty for one that prints the kit's event lines."""

    dialects: tuple[str, ...]
    measure: str
    fields: tuple[str, ...] = ()
    """What the dialects read."""
    unobserved: str = ""
    """Why its samples could not be counted."""
    note: str = ""
    """What a person should know of a dialect that was not taken."""
    is_silent: bool = False
    """Nothing was printed."""


def unread() -> Reading:
    """Return how a program is timed of which nothing is read."""
    return Reading((NONE,), SAMPLE_SECONDS)


def recognise(trial: Trial) -> Reading:
    """Find the fewest dialects that read the most of what was printed."""
    if (measure := _of_events(trial)) is not None:
        return Reading((), measure, ("event lines",))
    everything = _read(trial, tuple(name for name in names() if name not in (LAUNCHERS, NONE)))
    lines: dict[str, int] = everything.printed["dialects"]
    unobserved = "" if trial.ended_early else everything.facts.get("unobserved", "")
    left = {name: _read(trial, (name,)) for name, count in lines.items() if count and name != LAUNCHERS}
    note = ""
    if not trial.ended_early:  # one that takes the end of this run for none would do so each time
        wrong = [name for name, seen in left.items() if seen.status != "completed" and _fields(seen)]
        if wrong:
            note = f"dialect {wrong[0]} reads it, but not its end: {left[wrong[0]].reason}"
        left = {name: seen for name, seen in left.items() if seen.status == "completed"}
    chosen: list[str] = []
    covered: set[str] = set()
    while left and len(chosen) < MOST_DIALECTS:
        name = max(left, key=lambda name: (len(_fields(left[name]) - covered), lines[name]))
        if not _fields(left[name]) - covered:
            break
        covered |= _fields(left.pop(name))
        chosen.append(name)
    if not chosen:
        printed = any(path.lstat().st_size for path in (trial.folder / "raw").rglob("*std*"))
        return replace(unread(), note=note, is_silent=not printed, unobserved=unobserved)
    best = _read(trial, tuple(chosen))
    if best.status != "completed" and not trial.ended_early:
        chosen = chosen[:1]
        best = _read(trial, tuple(chosen))
    fields = tuple(FIELDS[name] for name in FIELDS if name in _fields(best))
    return Reading(tuple(chosen), SAMPLE_SECONDS, fields, unobserved)


def _of_events(trial: Trial) -> str | None:
    """Return the time to compare of a program that prints the kit's event lines, None of any other."""
    record = trial.record
    if not record.events.get("seen") or (record.status != "completed" and not trial.ended_early):
        return None
    known = next((name for name in ("train_seconds", "total_seconds") if name in record.metrics), None)
    return known or ("train_seconds" if trial.ended_early else None)


def _read(trial: Trial, dialects: tuple[str, ...]) -> Record:
    launch = msgspec.structs.replace(trial.record.launch, dialects=dict.fromkeys(dialects, ""))
    return collect(RunFolder(trial.folder), launch, trial.record.outcome)


def _fields(record: Record) -> set[str]:
    return {name for name in FIELDS if record.printed.get(name)}
