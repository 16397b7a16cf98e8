"""Convert records for tools such as MLflow: to parameters, tags, metrics, and curves over steps."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from runner.core.errors import reason_of
from runner.core.text import one_line
from runner.core.values import number
from runner.records.listing import RECORD, list_runs
from runner.records.schema import Record
from runner.report.run_summary import summary_of
from runner.report.summarize import BROKEN, NO_RUNS, fate_of, read_run, require_experiment

LONGEST_NAME = 200
_NOT_IN_A_NAME = re.compile(r"^[. ]+|[^\w. -]")


class Point(NamedTuple):
    """A value at a step of a run; `time_ms` is in milliseconds since 1970 UTC."""

    step: int
    value: float
    time_ms: int


@dataclass(frozen=True)
class ExportedRun:
    """A run for tools such as MLflow. All names come from `safe_name`. `curves` has values over epochs."""

    id: str
    experiment: str
    status: str
    started_ms: int
    ended_ms: int
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    curves: dict[str, list[Point]] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The SHA-256 of the run's contents."""
        return hashlib.sha256(msgspec.json.encode(asdict(self), order="deterministic")).hexdigest()


def exported_runs(results: Path, experiment: str | None, notes: list[str]) -> Iterator[ExportedRun]:
    """Yield the runs below a results folder, and add a note for each unreadable record to `notes`.

    Raises RequestError if the folder is missing, or if it has no run of the experiment.
    """
    names = set()
    for path in list_runs(results, notes):
        try:
            record = _read(results, path)
            names.add(record.launch.experiment)
            if experiment in (None, record.launch.experiment):
                yield exported(record)
        except BROKEN as error:
            notes.append(one_line(f"{results / path / RECORD}: left out: {reason_of(error)}"))
    if experiment is not None:
        require_experiment(results, experiment, names)
    elif not names:
        notes.append(f"{results}: {NO_RUNS}")


def exported(record: Record) -> ExportedRun:
    """Convert a record for other tools. Raises ValueError or another error of `BROKEN` if the record is broken."""
    launch, summary = record.launch, summary_of(record)
    started = _milliseconds(launch.started)
    ended = _milliseconds(record.outcome.ended) if record.outcome else started
    given = {**launch.args, **summary.axes}
    placed = {"layout": summary.layout, "target": summary.target, "device": summary.device, "program": summary.program}
    placed |= {"scaling": summary.scaling or "", "repeat": str(summary.repeat)}
    tags = {
        "hardware": summary.hardware,
        "status": record.status,
        "reason": summary.reason or "",
        "doubts": "; ".join(summary.doubts),
        "commit": one_line(launch.code.get("commit") or ""),
        **summary.same,
    }
    figures = {**record.metrics, **summary.load}
    return ExportedRun(
        id=safe_name(launch.id),
        experiment=safe_name(launch.experiment),
        status=record.status,
        started_ms=started,
        ended_ms=ended,
        params={safe_name(key): _word(value) for key, value in {**given, **placed}.items()},
        tags={safe_name(key): value for key, value in tags.items() if value},
        metrics={safe_name(name): float(value) for name, value in figures.items()},
        curves=_curves(record, started),
    )


def safe_name(text: object) -> str:
    """Make a name that is not a path and that every store accepts."""
    return _NOT_IN_A_NAME.sub("_", one_line(text, LONGEST_NAME)).strip() or "_"


def _read(results: Path, path: str) -> Record:
    record = read_run(results / path, results)
    return fate_of(record, results / path) if record.status == "running" else record


def _word(value: object) -> str:
    return one_line(value if isinstance(value, str) else msgspec.json.encode(value).decode())


def _curves(record: Record, started_ms: int) -> dict[str, list[Point]]:
    times: dict[int, int] = {}
    curves: dict[str, dict[int, Point]] = {}
    now = float(started_ms)
    for row in record.epochs:
        step = row.get("epoch_num", len(times) + 1)
        now += 1000 * (number(row.get("train_seconds"), 0.0, 1e9) or 0.0)
        times[step] = int(now)
        _add(curves, "epoch", row, step, times[step])
    for count, row in enumerate(record.evaluations, start=1):
        step = row.get("epoch_num", count)
        _add(curves, "eval", row, step, times.get(step, started_ms))
    return {name: list(points.values()) for name, points in curves.items()}


def _add(curves: dict[str, dict[int, Point]], kind: str, row: dict[str, Any], step: int, time_ms: int) -> None:
    for name, value in row.items():
        if name != "epoch_num" and (figure := number(value)) is not None:
            curves.setdefault(f"{kind}.{safe_name(name)}", {}).setdefault(step, Point(step, float(figure), time_ms))


def _milliseconds(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp() * 1000)
