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
    """Find the dialect that reads the most of what was printed."""
    if (measure := _of_events(trial)) is not None:
        return Reading((), measure, ("event lines",))
    everything = _read(trial, tuple(name for name in names() if name not in (LAUNCHERS, NONE)))
    lines: dict[str, int] = everything.printed["dialects"]
    unobserved = "" if trial.ended_early else everything.facts.get("unobserved", "")
    seen = {name: _read(trial, (name,)) for name, count in lines.items() if count and name != LAUNCHERS}
    seen = {name: record for name, record in seen.items() if _fields(record)}
    # One that takes the end of this run for a failure would do so each time.
    usable = {name for name, record in seen.items() if trial.ended_early or record.status == "completed"}
    note = ""
    if wrong := sorted(seen.keys() - usable):
        note = f"dialect {wrong[0]} reads it, but not its end: {seen[wrong[0]].reason}"
    if not usable:
        printed = any(path.lstat().st_size for path in (trial.folder / "raw").rglob("*std*"))
        return replace(unread(), note=note, is_silent=not printed, unobserved=unobserved)
    best = max(usable, key=lambda name: (len(_fields(seen[name])), lines[name], name))
    return Reading((best,), SAMPLE_SECONDS, tuple(map(FIELDS.__getitem__, _fields(seen[best]))), unobserved)


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


def _fields(record: Record) -> list[str]:
    return [name for name in FIELDS if record.printed.get(name)]
