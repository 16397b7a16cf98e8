"""Use dialects to read figures from the output of a program that prints no events.

If several logs state a figure, stdout counts before stderr, and a lower rank before a higher rank.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Any

from runner.core.errors import RequestError, reason_of
from runner.logs.dialect import chosen
from runner.logs.metrics import compiled
from runner.logs.reading import read_log
from runner.logs.summary import FIELDS, summary
from runner.records.folder import RawFiles, RunFolder
from runner.records.schema import Doubts, Record, figure

_CLOCK = "the runner's clock, from the launch to the end"
_MOST_NOTES = 20
_FIGURES: tuple[tuple[str, str, dict[str, int]], ...] = (
    ("final_accuracy", "final_eval", {"percent": 100, "fraction": 1}),
    ("best_accuracy", "best_eval", {"percent": 100, "fraction": 1}),
    ("final_loss", "last_train_loss", {}),
    ("samples_per_second", "throughput", {"samples/s": 1, "images/s": 1}),
)
"""Name of a figure, the summary's field that holds the value, and a divisor for each unit."""
_NAMES = {
    "loss": ("final_loss", 1),
    "accuracy": ("final_accuracy", 1),
    "accuracy_percent": ("final_accuracy", 100),
    "seconds": ("stated_seconds", 1),
}
"""Figure and divisor for well-known names of metrics. Any other metric becomes a figure of the same name."""


def take_printed(record: Record, folder: RunFolder, raw: RawFiles, doubts: Doubts) -> None:
    """Set a record's figures, with their sources, from the output of all processes."""
    logs = list(_logs(record, folder, raw, doubts))
    if not record.launch.dialects:  # the program's events hold the other figures
        _take_metrics(record, logs, doubts)
        return
    printed = record.printed = _merged(logs)
    record.sources = {"wall_seconds": _CLOCK} if "wall_seconds" in record.metrics else {}
    for name, field, units in _FIGURES:
        value = printed[field] and printed[field]["value"]
        per = value and (units.get(value["unit"]) if units else 1)
        if per and value["value"] is not None and value.get("metric", "accuracy") == "accuracy":
            _take_figure(record, name, value["value"] / per, place_of(printed[field]), doubts)
    _take_metrics(record, logs, doubts)
    if (accuracy := record.metrics.get("final_accuracy")) is not None:
        record.evaluations = [{"accuracy": accuracy}]
        final = printed["final_eval"]  # its number of samples counts only if its accuracy does
        if final and record.sources["final_accuracy"] == place_of(final) and "samples" in final["value"]:
            record.facts["eval_samples"] = final["value"]["samples"]
    doubts |= dict.fromkeys(note for note in printed["notes"] if ": left out: an accuracy " in note)
    started = raw.layout.world_size
    world = printed["world_size"]
    if world and world["value"] != started:
        doubts[f"{place_of(world)} reports {world['value']} processes, but {started} were started"] = None
    if seen := printed["epochs_seen"]:
        epochs, declared, place = seen["value"], printed["epochs_declared"], place_of(seen)
        record.epochs = [{"epoch_num": epoch} for epoch in epochs]
        if epochs[0] > 1 and epochs[1:2] == [epochs[0] + 1]:  # 10, 20 may mean that every tenth epoch is printed
            why = "resumed from a checkpoint of an earlier run"
            doubts[f"{place}: epochs begin with {epochs[0]:g}: {why}"] = None
        if declared and max(epochs) < declared["value"] - (0 in epochs):
            doubts[f"{place}: epochs end with {max(epochs):g} of {declared['value']}"] = None


def _take_metrics(record: Record, logs: list[dict[str, Any]], doubts: Doubts) -> None:
    """Set each `--metric` figure from the first log that contains it. Figures from the kit's events stay."""
    is_foreign = bool(record.launch.dialects)
    for metric in record.launch.metrics:
        name, per = _NAMES.get(metric, (metric, 1))
        log, value = next(((log["log"], one) for log in logs if (one := log["metrics"].get(metric))), ("", None))
        if value is None or value["value"] is None:
            doubts[f"metric {metric}: no line has a matching number, or a log holds two trainings"] = None
            record.metrics.pop(name, None) if is_foreign else None
            continue
        best = f"best_{name.removeprefix('final_')}"
        for figure_name, key, line in ((name, "value", "line"), (best, "best", "best_line")):
            if key in value and (is_foreign or figure_name not in record.metrics):
                _take_figure(record, figure_name, value[key] / per, f"{log}:{value[line]}", doubts)


def _take_figure(record: Record, name: str, value: float, place: str, doubts: Doubts) -> None:
    record.metrics.pop(name, None)
    try:
        if (taken := figure(name, value)) is not None:
            record.metrics[name] = taken
            record.sources |= {name: place} if record.launch.dialects else {}
    except ValueError as error:
        doubts[f"{place}: {error}"] = None


def _logs(record: Record, folder: RunFolder, raw: RawFiles, doubts: Doubts) -> Iterator[dict[str, Any]]:
    launch = record.launch
    try:
        dialects = chosen(launch.dialects) if launch.dialects else ()
        compiled(launch.metrics)
    except RequestError as error:  # possible in a record from an archive
        raise ValueError(f"invalid dialect or metric: {error}") from None
    errors = (raw.output(rank, "stderr") for rank in range(raw.layout.world_size))
    for path in filter(None, chain((path for _, path in raw.printed()), errors)):
        name = str(path.relative_to(folder.path))
        try:
            yield {"metrics": {}} | summary(name, read_log(path, dialects, metrics=compiled(launch.metrics)))
        except (OSError, ValueError, RequestError) as error:
            doubts[f"{name}: left out: {reason_of(error)}"] = None


def _merged(logs: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge the summaries of logs. Each field comes from the first log that states it.

    But if any log failed, the status comes from the first failed log.
    """
    merged: dict[str, Any] = dict.fromkeys(FIELDS)
    dialects: Counter[str] = Counter()
    notes: dict[str, None] = {}
    for log in logs:
        for field in FIELDS:
            kept, value = merged[field], log[field]
            is_worse = field == "status" and value == "failed" and kept is not None and kept["value"] != "failed"
            if is_worse or (value is not None and kept is None):
                merged[field] = {"value": value, "log": log["log"], "line": log["lines"].get(field)}
        dialects.update(log["dialects"])
        if log["dialects"]:
            notes |= dict.fromkeys(f"{log['log']}: {note}" for note in log["notes"])
    return {**merged, "dialects": dict(dialects), "notes": list(notes)[:_MOST_NOTES]}


def place_of(fact: dict[str, Any]) -> str:
    """Return the file and lines that state a field."""
    line = fact["line"]
    lines = f"{line[0]}-{line[-1]}" if isinstance(line, list) else line
    return f"{fact['log']}:{lines}" if lines else str(fact["log"])
