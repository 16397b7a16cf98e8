"""Choose the dialect that reads what the first run printed."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from runner.logs.dialect import LAUNCHERS, NONE, names
from runner.records.folder import RunFolder
from runner.records.observed import SAMPLE_SECONDS
from runner.records.parse import collect
from runner.records.schema import Record

FIELDS = {
    "last_train_loss": "loss",
    "final_eval": "evaluation",
    "throughput": "throughput",
    "epochs_seen": "epochs",
    "epochs_declared": "number of epochs",
}
"""The fields of a log by which a dialect is chosen, with their names for the user."""


@dataclass(frozen=True)
class Trial:
    """The record of the first run, and the run's folder with its output."""

    record: Record
    folder: Path

    @property
    def ended_early(self) -> bool:
        """Whether the first run was stopped at its time limit."""
        outcome = self.record.outcome
        return outcome is None or bool(outcome.stopped_because) or any(node.stopped for node in outcome.exits)


@dataclass(frozen=True)
class Reading:
    """How to read a program's output. `dialects` is empty if the program prints the kit's event lines.

    `fields` names the figures that the dialects read. If samples could not be counted, `unobserved` says why.
    """

    dialects: tuple[str, ...] = (NONE,)
    measure: str = SAMPLE_SECONDS
    fields: tuple[str, ...] = ()
    unobserved: str = ""


def recognise(trial: Trial) -> Reading:
    """Return the reading whose dialect finds the most fields in the output."""
    record = trial.record
    if record.events.get("seen") and (record.status == "completed" or trial.ended_early):
        times = [name for name in ("train_seconds", "total_seconds") if name in record.metrics]
        if times or trial.ended_early:
            return Reading((), (times or ["train_seconds"])[0], ("event lines",))
    everything = _read(trial, tuple(name for name in names() if name not in (LAUNCHERS, NONE)))
    lines: dict[str, int] = everything.printed["dialects"]
    unobserved = "" if trial.ended_early else everything.facts.get("unobserved", "")
    usable: dict[str, list[str]] = {}
    for name, count in lines.items():
        if count and name != LAUNCHERS:
            alone = _read(trial, (name,))
            fields = [field for field in FIELDS if alone.printed.get(field)]
            # A dialect that calls this run failed would call every run failed.
            if fields and (trial.ended_early or alone.status == "completed"):
                usable[name] = fields
    if not usable:
        return Reading(unobserved=unobserved)
    best = max(usable, key=lambda name: (len(usable[name]), lines[name], name))
    return Reading((best,), SAMPLE_SECONDS, tuple(map(FIELDS.__getitem__, usable[best])), unobserved)


def _read(trial: Trial, dialects: tuple[str, ...]) -> Record:
    launch = msgspec.structs.replace(trial.record.launch, dialects=dict.fromkeys(dialects, ""))
    return collect(RunFolder(trial.folder), launch, trial.record.outcome)
