"""The facts of a log -> one JSON object, which has every field: what the log does not say is None."""

import math
from typing import Any

from runner.core.text import one_line
from runner.logs import mlperf
from runner.logs.facts import Facts
from runner.logs.fields import METRICS
from runner.logs.reading import Reading
from runner.logs.status import status_of
from runner.logs.values import MOST_WRITERS, Value

_OF_THE_RUN = {"world_size": "world_size", "nnodes": "nnodes", "backend": "backend", "epochs_declared": "epochs"}
"""Facts that are the same for the whole run, with the fields that say them."""
_MEASURED = ("last_train_loss", "final_eval", "best_eval", "wall_time_s", "timestamps_span_s", "throughput", "speedup")
FIELDS = ("status", *_OF_THE_RUN, "epochs_seen", *_MEASURED)


def unread(name: str, why: str) -> dict[str, Any]:
    """Return the object of a log that could not be read."""
    return {"log": one_line(name), **dict.fromkeys(FIELDS), "lines": {}, "dialects": {}, "notes": [one_line(why)]}


def summary(name: str, reading: Reading) -> dict[str, Any]:
    """Return the object of a log."""
    facts = reading.facts
    status = status_of(facts, reading.tail)
    lines: dict[str, Any] = {"status": status.line} if status.line else {}
    shown: dict[str, Any] = {"log": one_line(name), "status": status.status}
    for field, fact in _OF_THE_RUN.items():
        value = facts.declared_epochs() if fact == "epochs" else facts.fact(fact)
        shown[field] = value.value if value else None
        lines |= {field: value.line} if value else {}
    whole = {"run_start", "run_stop"} <= facts.runs.keys()
    seen = facts.epochs[whole] or facts.epochs[not whole]
    shown["epochs_seen"] = sorted(seen) or None
    lines |= {"epochs_seen": [seen[epoch] for epoch in sorted(seen)]} if seen else {}
    shown["last_train_loss"] = _value(facts.losses.chosen() or facts.run_losses.chosen())
    final, best = _evaluations(facts, whole=whole)
    shown |= {"final_eval": final, "best_eval": best}
    if wall := facts.wall():
        kind = f"stated: {wall.scope}" if wall.scope else "stated"
        wall_time = {"value": wall.value, "kind": kind, "text": wall.text, "line": wall.line}
    shown["wall_time_s"] = wall and wall_time
    shown["timestamps_span_s"] = _span(reading.facts)
    shown["throughput"] = _value(facts.throughputs.chosen(), "unit")
    shown["speedup"] = _value(facts.fact("speedup"), "unit")
    lines |= {key: shown[key]["line"] for key in _MEASURED if shown[key]}
    shown["lines"] = lines
    shown["dialects"] = dict(sorted(facts.dialects.items()))
    shown["origins"] = {"prefixes": dict(sorted(facts.prefixes.items())), "writers": len(facts.writers)}
    shown["contradictions"] = _contradictions(facts)
    notes = [*_notes(facts, shown["contradictions"], wall), *_doubts(facts, shown["epochs_seen"])]
    shown["notes"] = [*reading.notes, *status.notes, *notes]
    if reading.metrics:
        shown["metrics"] = {name: metric.summary() for name, metric in reading.metrics.items()}
    shown |= {"bytes": reading.bytes, "line_count": reading.lines}
    return shown


def _value(value: Value | None, *more: str) -> dict[str, Any] | None:
    if value is None:
        return None
    if isinstance(value.value, float) and not math.isfinite(value.value):
        value = value._replace(value=None, scope=f"printed as {value.value}")
    found = {"value": value.value, **{name: getattr(value, name) for name in more}}
    return found | {"scope": value.scope, "line": value.line}


def _evaluations(facts: Facts, *, whole: bool) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return the last and the best evaluation, of the metric and the writer that say most."""
    of_benchmark = mlperf.metric_of(facts.benchmark)
    known = {
        (weak, of_benchmark if name == mlperf.EVALUATION else name, writer): found
        for (weak, name, writer), found in facts.evaluations.items()
    }
    order = [(weak, metric) for weak in (whole, not whole) for metric in METRICS]
    key = next((key for place in order for key in sorted(known) if key[:2] == place), None)
    stated = facts.stated_best and _evaluation("accuracy", facts.stated_best, "best accuracy, as stated")
    if key is None:
        return None, stated
    found, metric = known[key], key[1]
    final = _evaluation(metric, found.last, found.last.scope)
    if facts.stated_best and metric == "accuracy" and found.last.comparable > 1.001 * facts.stated_best.comparable:
        stated = None  # it is of other data, or of before
    is_mixed = len(found.samples) > 1 or len(found.guessed_units) > 1
    if found.count > 1 and not found.stated_best and not is_mixed and stated is None:
        best = found.best(metric)
        epoch = "" if best.epoch is None else f", epoch {best.epoch}"
        return final, _evaluation(metric, best, f"best of {found.count}{epoch}")
    return final, stated


def _evaluation(metric: str, value: Value, scope: str | None) -> dict[str, Any]:
    unit = mlperf.unit_of(metric, value.value) if value.unit is None else value.unit
    samples = {"samples": value.samples} if value.samples else {}
    found = {"metric": metric, "value": value.value, "unit": unit, "scope": scope, **samples, "line": value.line}
    return found if math.isfinite(value.value) else found | {"value": None, "scope": f"printed as {value.value}"}


def _span(facts: Facts) -> dict[str, Any] | None:
    """Return the time between the first and the last time stamp that say something about the run."""
    starts, stops = facts.runs.get("run_start", []), facts.runs.get("run_stop", [])
    if starts or stops:
        first = [event.time_ms for event in starts if event.time_ms is not None]
        last = [event.time_ms for event in stops if event.time_ms is not None]
        if not first or not last:
            return None
        lines = [facts.run_lines["run_start"], facts.run_lines["run_stop"]]
        return _times((max(last) - min(first)) / 1_000, "run_start to run_stop", lines)
    if len(facts.times) > 1:
        (line, begin), (last_line, end) = facts.times
        kind = "from timestamps, first loss line to the last line that says something"
    else:
        return None
    text = f"{begin:%H:%M:%S} -> {end:%H:%M:%S}"
    return _times((end - begin).total_seconds(), kind, [line, last_line], text)


def _times(seconds: float, kind: str, lines: list[int], text: str = "") -> dict[str, Any] | None:
    if seconds < 0:
        return None
    value = int(seconds) if float(seconds).is_integer() else round(seconds, 6)
    return {"value": value, "kind": kind, "text": text or kind, "line": lines}


def _contradictions(facts: Facts) -> dict[str, list[dict[str, Any]]]:
    found = {name: fact.contradictory() for name, fact in facts.facts.items()}
    return {
        "epochs_declared" if name == "epochs" else name: [{"value": said.value, "line": said.line} for said in values]
        for name, values in found.items()
        if values
    }


def _notes(facts: Facts, contradictions: dict[str, list[dict[str, Any]]], wall: Value | None) -> list[str]:
    notes = []
    for name, values in contradictions.items():
        words = ", ".join(f"{value['value']} in line {value['line']}" for value in values)
        notes.append(f"contradictory {name}: {words}")
    if wall is None and (ones := [one for last in facts.walls.values() for one in last.by_writer.values()]):
        notes.append(f"line {ones[0].line}: the duration of one epoch: {ones[0].text}")
    if facts.restart:
        notes.append(f"line {facts.restart}: a training begins again: of two trainings no figure is taken")
    notes += [f"line {value.line}: left out: {why}: {value.text}" for why, value in facts.left_out.items()]
    if facts.has_more_writers:
        most = f"more than {MOST_WRITERS:,} ranks and containers print here"
        notes.append(f"{most}: only figures of the lowest ranks and first names are kept")
    if line := facts.said.get("ignored"):
        notes.append(f"line {line}: an exception that Python ignored")
    if line := facts.said.get("elided"):
        notes.append(f"line {line} shows that somebody left lines out")
    return notes


def _doubts(facts: Facts, epochs: list[float] | None) -> list[str]:
    """Return what makes a log look like a part of one, or like one of a program that is not known."""
    notes = []
    if facts.dialects and not (facts.progress or facts.evaluated or facts.runs or facts.throughputs.by_writer):
        notes.append("no line of a training was read; `docs/dialects.md` shows the known ones and how to add one")
    if epochs and epochs[0] > 1:
        notes.append(f"its epochs begin with {epochs[0]:g}: a run that goes on from a checkpoint, or the end of a log")
    return notes
