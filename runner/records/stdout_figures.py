"""The record of a program that knows nothing of the kit: what its stdout says, by dialects, and where that stands.

Each process's stdout and stderr is a log of its own. Of a figure that several of them state, the lowest rank's counts,
and its stdout before its stderr.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from runner.core.errors import RequestError, reason_of
from runner.core.layout import Layout
from runner.core.values import number
from runner.logs.dialect import chosen
from runner.logs.metrics import compiled
from runner.logs.reading import read_log
from runner.logs.summary import FIELDS, summary
from runner.records.checks import Doubts, check_figure
from runner.records.folder import RunFolder
from runner.records.raw_files import RawFiles
from runner.records.schema import Record

CLOCK = "the runner's clock, from the launch to the end"
MOST_EPOCHS = 10_000
MOST_LOGS = 10_000
MOST_NOTES = 20
_WORST_FIRST = ("failed", "completed")
_NAMES = {
    "loss": ("final_loss", 1),
    "accuracy": ("final_accuracy", 1),
    "accuracy_percent": ("final_accuracy", 100),
    "seconds": ("stated_seconds", 1),
}
"""The figures of a record that a metric stands for, and by what it is divided; any other is one of its own."""
_RATES = ("samples/s", "images/s")


def take_printed(record: Record, folder: RunFolder, raw: RawFiles, doubts: Doubts) -> None:
    """Read what the processes printed, and fill in the record's figures with their places."""
    found = _merged(_logs(record, folder, raw, doubts))
    metrics = found.pop("metrics")
    if not record.launch.dialects:  # a program of the kit: its events say all else
        _take_metrics(record, metrics, doubts)
        return
    record.printed = found
    record.sources = {"wall_seconds": CLOCK} if "wall_seconds" in record.metrics else {}
    for name, field, value in _figures(found):
        figure = check_figure(name, value, doubts, f"{found[field]['log']}: ")
        if figure is not None:
            record.metrics[name] = figure
            record.sources[name] = place_of(found[field])
    _take_metrics(record, metrics, doubts)
    accuracy = record.metrics.get("final_accuracy")
    if accuracy is not None:
        record.evaluations = [{"accuracy": accuracy}]
        record.facts |= {"eval_samples": samples} if (samples := _samples(found, record)) else {}
    if (seen := found["epochs_seen"]) and len(seen["value"]) > MOST_EPOCHS:
        doubts.add(f"{place_of(seen)}: {len(seen['value']):,} epochs: those after {MOST_EPOCHS:,} are not kept")
        seen["value"], seen["line"] = seen["value"][:MOST_EPOCHS], seen["line"][:MOST_EPOCHS]
    record.epochs = [{"epoch_num": epoch} for epoch in seen["value"]] if seen else []
    first, *others = [epoch["epoch_num"] for epoch in record.epochs[:2]] or [0]
    if first > 1 and others == [first + 1]:  # a program that prints every tenth epoch begins with 10
        doubts.add(f"{place_of(seen)}: its epochs begin with {first:g}: it went on from a checkpoint of an earlier run")
    said, started = found["world_size"], Layout.parse(record.launch.layout).world_size
    if said and said["value"] != started:
        doubts.add(f"{place_of(said)} says that {said['value']} processes trained, and {started} were started")
    declared = found["epochs_declared"]
    if declared and seen and max(seen["value"]) < declared["value"] - (0 in seen["value"]):
        doubts.add(f"{place_of(seen)}: its epochs end with {max(seen['value']):g} of {declared['value']}")


def _samples(found: dict[str, Any], record: Record) -> int | None:
    """Return of how many samples the accuracy is, if it is the log's own."""
    told = found["final_eval"]
    is_its = told and record.sources.get("final_accuracy") == place_of(told)
    return told["value"].get("samples") if is_its else None


def _take_metrics(record: Record, found: dict[str, dict[str, Any]], doubts: Doubts) -> None:
    """Fill in the figures that a person named; what a program of the kit has measured stays."""
    for given in record.launch.metrics:
        name, per = _NAMES.get(given, (given, 1))
        said = found.get(given)
        if said is None or said["value"] is None:
            why = "no line matches" if said is None else f"{said['log']}:{said['line']}: it is no number"
            doubts.add(f"metric {given}: {why}")
            record.metrics.pop(name, None) if record.launch.dialects else None
            continue
        best = f"best_{name.removeprefix('final_')}"
        for figure, key, line in ((name, "value", "line"), (best, "best", "best_line")):
            if key not in said:
                continue
            if not record.launch.dialects and figure in record.metrics:
                doubts.add(f"metric {given}: {figure} stays as the program's events say it")
                continue
            place = f"{said['log']}:{said[line]}"
            record.metrics.pop(figure, None)
            if (value := check_figure(figure, said[key] / per, doubts, f"{place}: ")) is not None:
                record.metrics[figure] = value
                record.sources |= {figure: place} if record.launch.dialects else {}


def _logs(record: Record, folder: RunFolder, raw: RawFiles, doubts: Doubts) -> Iterator[dict[str, Any]]:
    try:
        dialects = chosen(record.launch.dialects) if record.launch.dialects else ()
        compiled(record.launch.metrics)
    except RequestError as error:  # the record may be a stranger's
        raise ValueError(f"its dialect cannot be read: {error}") from None
    errors = ((rank, raw.output(rank, "stderr")) for rank in range(raw.layout.world_size))
    paths = chain(raw.printed(), ((rank, path) for rank, path in errors if path))
    for count, (_, path) in enumerate(paths):
        if count == MOST_LOGS:
            doubts.add(f"more than {MOST_LOGS:,} files of output: the others are not read")
            return
        name = str(path.relative_to(folder.path))
        try:
            yield summary(name, read_log(path, dialects, metrics=compiled(record.launch.metrics)))
        except (OSError, ValueError, RequestError) as error:
            doubts.add(f"{name}: left out: {reason_of(error)}")


def _merged(logs: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Take each field from the first log that has it; `value` is the field as the log's own object shows it."""
    found: dict[str, Any] = dict.fromkeys(FIELDS)
    statuses: dict[str, dict[str, Any]] = {}
    dialects: Counter[str] = Counter()
    notes: dict[str, None] = {}
    metrics: dict[str, dict[str, Any]] = {}
    for log in logs:
        for name, said in log.get("metrics", {}).items():
            if said:
                metrics.setdefault(name, said | {"log": log["log"]})
        for field in FIELDS[1:]:
            if found[field] is None and log[field] is not None:
                found[field] = _kept(log, field)
        if log["status"] is not None:
            statuses.setdefault(log["status"], _kept(log, "status"))
        dialects.update(log["dialects"])
        if log["dialects"] and len(notes) < MOST_NOTES:
            notes |= dict.fromkeys(f"{log['log']}: {note}" for note in log["notes"])
    found["status"] = next((statuses[status] for status in _WORST_FIRST if status in statuses), None)
    return {**found, "dialects": dict(dialects), "notes": list(notes)[:MOST_NOTES], "metrics": metrics}


def _kept(log: dict[str, Any], field: str) -> dict[str, Any]:
    return {"value": log[field], "log": log["log"], "line": log["lines"].get(field)}


def _figures(found: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield each figure with its name in a record, the field of the log that it is from, and its value in SI units."""
    for name, field in (("final_accuracy", "final_eval"), ("best_accuracy", "best_eval")):
        value = found[field] and found[field]["value"]
        if value and value["metric"] == "accuracy" and value["unit"] in ("percent", "fraction"):
            yield name, field, value["value"] / 100 if value["unit"] == "percent" else value["value"]
    loss = found["last_train_loss"]
    if loss and number(loss["value"]["value"]) is not None:
        yield "final_loss", "last_train_loss", loss["value"]["value"]
    throughput = found["throughput"] and found["throughput"]["value"]
    if throughput and throughput["unit"] in _RATES:
        yield "samples_per_second", "throughput", throughput["value"]


def place_of(found: dict[str, Any]) -> str:
    """Name the file and the line that a field is from."""
    line = found["line"]
    lines = f"{line[0]}-{line[-1]}" if isinstance(line, list) else line
    return f"{found['log']}:{lines}" if lines else str(found["log"])
