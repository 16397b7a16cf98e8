"""The facts of a log -> one JSON object, which has every field: what the log does not say is None."""

from __future__ import annotations

import math
from typing import Any

from runner.core.text import one_line
from runner.logs import mlperf
from runner.logs.dates import span_seconds
from runner.logs.facts import Facts
from runner.logs.fields import METRICS
from runner.logs.reading import Reading
from runner.logs.said import MOST_WRITERS, Evaluations, Value
from runner.logs.status import status_of

FIELDS = (
    "status",
    "world_size",
    "nnodes",
    "backend",
    "epochs_declared",
    "epochs_seen",
    "last_train_loss",
    "final_eval",
    "best_eval",
    "wall_time_s",
    "timestamps_span_s",
    "throughput",
    "speedup",
)

_ROUNDING = 0.1
"""The part of a duration by which the same duration, printed elsewhere, may differ."""


def unread(name: str, why: str) -> dict[str, Any]:
    """Return the object of a log that could not be read."""
    return {"log": one_line(name), **dict.fromkeys(FIELDS), "lines": {}, "dialects": {}, "notes": [one_line(why)]}


def summary(name: str, reading: Reading) -> dict[str, Any]:
    """Return the object of a log."""
    facts = reading.facts
    status = status_of(facts, reading.tail)
    lines: dict[str, Any] = {"status": status.line} if status.line else {}
    shown: dict[str, Any] = {"log": one_line(name), "status": status.status}
    for field, fact in (
        ("world_size", "world_size"),
        ("nnodes", "nnodes"),
        ("backend", "backend"),
        ("epochs_declared", "epochs"),
    ):
        value = facts.declared_epochs() if fact == "epochs" else facts.fact(fact)
        shown[field] = value.value if value else None
        lines |= {field: value.line} if value else {}
    whole = {"run_start", "run_stop"} <= facts.runs.keys()
    seen = facts.epochs[whole] or facts.epochs[not whole] or facts.blocks.epochs
    shown["epochs_seen"] = sorted(seen) or None
    lines |= {"epochs_seen": [seen[epoch] for epoch in sorted(seen)]} if seen else {}
    shown["last_train_loss"] = _value(facts.losses.chosen() or facts.run_losses.chosen())
    final, best = _evaluations(facts, whole=whole)
    shown |= {"final_eval": final, "best_eval": best}
    wall = _wall(facts)
    shown["wall_time_s"] = wall and {"value": wall.value, "kind": _stated(wall), "text": wall.text, "line": wall.line}
    shown["timestamps_span_s"] = _span(reading)
    shown["throughput"] = _value(facts.throughputs.chosen(), "unit")
    shown["speedup"] = _value(facts.fact("speedup"), "unit")
    lines |= {key: shown[key]["line"] for key in FIELDS[6:] if shown[key]}
    shown["lines"] = lines
    shown["dialects"] = dict(sorted(facts.dialects.items()))
    shown["origins"] = {"prefixes": dict(sorted(facts.kinds.items())), "writers": len(facts.writers)}
    shown["contradictions"] = _contradictions(facts)
    shown["notes"] = [*reading.notes, *status.notes, *_notes(facts), *_doubts(facts, shown["epochs_seen"])]
    shown |= {"bytes": reading.bytes, "line_count": reading.lines}
    return shown


def _value(value: Value | None, *more: str) -> dict[str, Any] | None:
    if value is None:
        return None
    if isinstance(value.value, float) and not math.isfinite(value.value):
        value = value._replace(value=None, scope=f"printed as {value.value}")
    found = {"value": value.value, **{name: getattr(value, name) for name in more}}
    return found | {"scope": value.scope, "line": value.line}


def _wall(facts: Facts) -> Value | None:
    """Return the duration of the run, which is none that was stated for one epoch."""
    stated = (facts.walls[weak].chosen() for weak in (False, True))
    return next((one for one in stated if one and not (one.of_end and facts.is_of_an_epoch(one.of_end))), None)


def _stated(value: Value) -> str:
    return f"stated: {value.scope}" if value.scope else "stated"


def _evaluations(facts: Facts, *, whole: bool) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Return the last and the best evaluation, of the metric and the writer that say most."""
    known = {(weak, _metric(facts, name), who): one for (weak, name, who), one in facts.evaluations.items()}
    order = [(weak, metric) for weak in (whole, not whole) for metric in METRICS]
    key = next((key for place in order for key in sorted(known) if key[:2] == place), None)
    stated = facts.stated_best and _evaluation("accuracy", facts.stated_best, "best accuracy, as stated")
    if key is None:
        return None, stated
    found, metric = known[key], key[1]
    final = _evaluation(metric, found.last, found.last.scope)
    if found.count > 1 and not (found.stated_best or found.are_doubtful) and stated is None:
        best = found.best(metric)
        return final, _evaluation(metric, best, _best(found, best))
    return final, stated


def _metric(facts: Facts, name: str) -> str:
    return mlperf.metric_of(facts.benchmark) if name == mlperf.EVALUATION else name


def _best(found: Evaluations, best: Value) -> str:
    return f"best of {found.count}" + (f", epoch {best.epoch}" if best.epoch is not None else "")


def _evaluation(metric: str, value: Value, scope: str | None) -> dict[str, Any]:
    unit = mlperf.unit_of(metric, value.value) if value.unit is None else value.unit
    samples = {"samples": value.samples} if value.samples else {}
    return {"metric": metric, "value": value.value, "unit": unit, "scope": scope, **samples, "line": value.line}


def _span(reading: Reading) -> dict[str, Any] | None:
    """Return the time between the first and the last time stamp that say something about the run."""
    facts = reading.facts
    starts, stops = facts.runs.get("run_start", []), facts.runs.get("run_stop", [])
    if starts or stops:
        first = [one.time_ms for one in starts if one.time_ms is not None]
        last = [one.time_ms for one in stops if one.time_ms is not None]
        if not first or not last:
            return None
        lines = [facts.run_lines["run_start"], facts.run_lines["run_stop"]]
        return _times((max(last) - min(first)) / 1_000, "run_start to run_stop", lines)
    if len(facts.times) > 1:
        (line, begin), (last_line, end) = facts.times
        kind = "from timestamps, first loss line to the last line that says something"
        text = f"{begin:%H:%M:%S} -> {end:%H:%M:%S}"
        return _times((end - begin).total_seconds(), kind, [line, last_line], text)
    if reading.dates and reading.dates[0].line < reading.dates[-1].line:
        first_date, last_date = reading.dates
        text = f"{first_date.moment:%H:%M:%S} -> {last_date.moment:%H:%M:%S}"
        seconds = span_seconds(first_date, last_date)
        if seconds is not None:
            return _times(seconds, "job script dates", [first_date.line, last_date.line], text)
    return None


def _times(seconds: float, kind: str, lines: list[int], text: str = "") -> dict[str, Any] | None:
    if seconds < 0:
        return None
    value = int(seconds) if float(seconds).is_integer() else round(seconds, 6)
    return {"value": value, "kind": kind, "text": text or kind, "line": lines}


def _contradictions(facts: Facts) -> dict[str, list[dict[str, Any]]]:
    found = {name: fact.contradictory() for name, fact in facts.facts.items()}
    if _wall(facts) is None:
        found["wall_time_s"] = facts.ends.walls.contradictory()
    return {
        ("epochs_declared" if name == "epochs" else name): [{"value": one.value, "line": one.line} for one in values]
        for name, values in found.items()
        if values
    }


def _notes(facts: Facts) -> list[str]:
    notes = []
    for name, values in _contradictions(facts).items():
        words = ", ".join(f"{one['value']} in line {one['line']}" for one in values)
        notes.append(f"contradictory {name}: {words}")
    wall, other = (facts.walls[weak].chosen() for weak in (False, True))
    if _wall(facts) is None:
        notes += [f"line {one.line}: the duration of one epoch: {one.text}" for one in (wall, other) if one][:1]
    elif wall and other and _wall(facts) is wall and abs(wall.value - other.value) > _ROUNDING * abs(wall.value):
        notes.append(f"wall_time_s is that of line {wall.line}; line {other.line} says {other.value} s")
    notes += [f"line {one.line}: left out: {why}: {one.text}" for why, one in facts.left_out.items()]
    if facts.has_more_writers:
        most = f"more than {MOST_WRITERS:,} ranks and containers print here"
        notes.append(f"{most}: only figures of the lowest ranks and first names are kept")
    if ignored := facts.ends.said.get("ignored"):
        notes.append(f"line {ignored.line}: an exception that Python ignored")
    if elided := facts.ends.said.get("elided"):
        notes.append(f"line {elided.line} shows that somebody left lines out")
    return notes


def _doubts(facts: Facts, epochs: list[float] | None) -> list[str]:
    """Return what makes a log look like a part of one, or like one of a program that is not known."""
    notes = []
    if facts.dialects and not (facts.progress or facts.evaluated or facts.runs or facts.throughputs.by_writer):
        notes.append("no line of a training was read; `docs/dialects.md` shows the known ones and how to add one")
    if epochs and epochs[0] > 1:
        notes.append(f"its epochs begin with {epochs[0]:g}: a run that goes on from a checkpoint, or the end of a log")
    if facts.blocks.counts_samples:
        notes.append("its blocks count samples, not epochs: they are left out")
    return notes
