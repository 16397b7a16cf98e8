"""Summarise the facts of a log as a JSON object. A field is None if the log does not state it."""

import math
import re
from typing import Any

from runner.core.text import one_line
from runner.logs import mlperf
from runner.logs.dialect import Value
from runner.logs.facts import Facts
from runner.logs.origin import MOST_WRITERS
from runner.logs.pattern import LOWER_IS_BETTER, METRICS
from runner.logs.reading import Reading

_OF_THE_RUN = {"world_size": "world_size", "nnodes": "nnodes", "backend": "backend", "epochs_declared": "epochs"}
"""Fields of the summary about the whole run, and the facts behind them."""
_MEASURED = ("last_train_loss", "final_eval", "best_eval", "wall_time_s", "timestamps_span_s", "throughput", "speedup")
FIELDS = ("status", *_OF_THE_RUN, "epochs_seen", *_MEASURED)
_MOST_AFTER = 20
"""Maximum unrelated lines that may follow the failure that ended the run."""
_OF_A_FAILURE = re.compile(
    r"^\s{0,8}$|^[\W_]{4,}|^ {2}|[Ee]xception|[Tt]erminat|[Ee]xit|[Ww]arn|WARN|wandb:|NCCL|UCX|[Tt]orch[./]distributed"
    r"|srun|mpirun|MPI|[Rr]ank\b|[Hh]ost\b|leaked|[Rr]oot [Cc]ause|^\[?\d?\]?\s?[#$>]|^\S{1,60}[$#%>] ?"
    r"|^(?:time|exitcode)\b"
)
"""Typical texts of launchers, other processes and the shell after a failure."""
_SMELLS = re.compile(
    r"Traceback|Error|ERROR|[Ff]ailed|FAIL|\b[Kk]ill|[Aa]bort|SIG[A-Z]{3}|[Ss]ignal|[Cc]ancel|CANCEL|core dumped"
    r"|[Ff]ault\b|[Oo]ut of memory|OOM|exit(?:ed)?(?: with)? (?:code|status)[: ]{1,8}-?[1-9]"
)
"""Signs of a failure that no dialect recognises."""
_Status = tuple[str | None, int | None, list[str]]
"""Status (None if not stated), the line that shows it, and notes."""


def unread(name: str, why: str) -> dict[str, Any]:
    """Return the summary of an unreadable log."""
    return {"log": one_line(name), **dict.fromkeys(FIELDS), "lines": {}, "dialects": {}, "notes": [one_line(why)]}


def summary(name: str, reading: Reading) -> dict[str, Any]:
    """Return the summary of a log."""
    facts = reading.facts
    status, line, notes = _status(facts, reading.tail)
    shown: dict[str, Any] = {"log": one_line(name), **dict.fromkeys(FIELDS), "status": status}
    lines: dict[str, Any] = {"status": line} if line else {}
    for field, name in _OF_THE_RUN.items():
        if value := facts.declared_epochs() if name == "epochs" else facts.fact(name):
            shown[field], lines[field] = value.value, value.line
    is_mlperf = {"run_start", "run_stop"} <= facts.runs.keys()
    if seen := facts.epochs[is_mlperf] or facts.epochs[not is_mlperf]:
        shown["epochs_seen"] = sorted(seen)
        lines["epochs_seen"] = [seen[epoch] for epoch in sorted(seen)]
    if loss := facts.lowest("train_loss") or facts.lowest("run_loss"):
        shown["last_train_loss"] = _shown(loss, scope=loss.scope)
    shown["final_eval"], shown["best_eval"] = _evaluations(facts, is_mlperf=is_mlperf)
    if (end := facts.wall()) and end.wall:
        kind = f"stated: {end.wall.scope}" if end.wall.scope else "stated"
        shown["wall_time_s"] = {"value": end.wall.value, "kind": kind, "text": end.text, "line": end.line}
    shown["timestamps_span_s"] = _span(facts)
    for field, value in (("throughput", facts.lowest("throughput")), ("speedup", facts.fact("speedup"))):
        shown[field] = value and _shown(value, unit=value.unit, scope=value.scope)
    shown["lines"] = lines | {field: shown[field]["line"] for field in _MEASURED if shown[field]}
    shown["dialects"] = dict(sorted(facts.dialects.items()))
    shown["notes"] = [*reading.notes, *notes, *_notes(facts, shown)]
    if reading.metrics:
        is_one = not facts.restart
        shown["metrics"] = {name: metric.summary() if is_one else None for name, metric in reading.metrics.items()}
    return shown | {"bytes": reading.bytes, "line_count": reading.lines}


def _shown(value: Value, **more: Any) -> dict[str, Any]:
    if not math.isfinite(value.value):
        return {"value": None, **more, "scope": f"printed as {value.value}", "line": value.line}
    return {"value": value.value, **more, "line": value.line}


def _evaluations(facts: Facts, *, is_mlperf: bool) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    stated = facts.stated_best and _evaluation("accuracy", facts.stated_best, "best accuracy, as stated")
    benchmark = mlperf.metric_of(facts.benchmark)
    known = [
        (weak != is_mlperf, METRICS.index(metric), who, metric, found)
        for who, writer in facts.writers.items()
        for (weak, name), found in writer.evaluations.items()
        for metric in [benchmark if name == mlperf.EVALUATION else name]
    ]
    if not known:
        return None, stated
    *_, metric, found = min(known, key=lambda one: one[:3])
    final = _evaluation(metric, found.last, found.last.scope)
    if facts.stated_best and metric == "accuracy" and found.last.comparable > 1.001 * facts.stated_best.comparable:
        return final, None  # the stated best is of other data or of an earlier run
    if stated or found.count == 1 or found.stated_best or found.is_mixed:
        return final, stated
    best = found.lowest if metric in LOWER_IS_BETTER else found.highest
    epoch = "" if best.epoch is None else f", epoch {best.epoch}"
    return final, _evaluation(metric, best, f"best of {found.count}{epoch}")


def _evaluation(metric: str, value: Value, scope: str | None) -> dict[str, Any]:
    samples = {"samples": value.samples} if value.samples else {}
    unit = mlperf.unit_of(metric, value.value) if value.unit is None else value.unit
    return {"metric": metric, **_shown(value, unit=unit, scope=scope, **samples)}


def _span(facts: Facts) -> dict[str, Any] | None:
    if facts.runs:
        starts, stops = (
            [(line, event.time_ms) for line, event, _ in facts.runs.get(key, []) if event.time_ms is not None]
            for key in ("run_start", "run_stop")
        )
        if not starts or not stops:
            return None
        seconds = (max(time for _, time in stops) - min(time for _, time in starts)) / 1_000
        kind = text = "run_start to run_stop"
        lines = [starts[0][0], stops[-1][0]]
    elif len(facts.times) > 1:
        (line, begin), (last_line, end) = facts.times
        seconds = (end - begin).total_seconds()
        kind = "from timestamps, first loss line to the last line that says something"
        text, lines = f"{begin:%H:%M:%S} -> {end:%H:%M:%S}", [line, last_line]
    else:
        return None
    value = int(seconds) if float(seconds).is_integer() else round(seconds, 6)
    return {"value": value, "kind": kind, "text": text, "line": lines} if seconds >= 0 else None


def _notes(facts: Facts, shown: dict[str, Any]) -> list[str]:
    notes = []
    for name, values in facts.said.items():
        if len({value.value for value in values}) > 1:
            words = ", ".join(f"{value.value} in line {value.line}" for value in values)
            notes.append(f"contradictory {'epochs_declared' if name == 'epochs' else name}: {words}")
    if not shown["wall_time_s"] and (walls := [end for end in facts.ends.values() if end.wall]):
        notes.append(f"line {walls[0].line}: the duration of one epoch: {walls[0].text}")
    if facts.restart:
        notes.append(
            "lines {} and {}: a second training seems to begin, so no figure is taken from either".format(
                *facts.restart
            )
        )
    notes += [f"line {line}: left out: {why}: {text}" for why, (line, text) in facts.left_out.items()]
    if facts.has_more_writers:
        notes.append(f"more than {MOST_WRITERS:,} ranks and containers: the others are left out")
    if facts.dialects and not (
        facts.restart or facts.progress or facts.evaluated or facts.runs or facts.lowest("throughput")
    ):
        notes.append("no line of a training was recognised; see docs/dialects.md for how to add a dialect")
    if (epochs := shown["epochs_seen"]) and epochs[0] > 1:
        notes.append(f"epochs begin with {epochs[0]:g}: resumed from a checkpoint, or the log lacks its beginning")
    return notes


def _status(facts: Facts, tail: list[tuple[int, str]]) -> _Status:
    failure, notes = facts.failure, list[str]()
    if stops := facts.runs.get("run_stop"):
        stop = stops[-1][0]
        if (starts := facts.runs.get("run_start")) and starts[-1][0] > stop:
            return None, starts[-1][0], ["another run_start has no run_stop"]
        said = [event.metadata.get("status") for _, event, _ in stops]
        if bad := [word for word in said if word not in (None, "success")]:
            return "failed", stop, [f"run_stop says {one_line(repr(bad[0]), 60)}"]
        notes = [f"line {failure.line} says: {failure.text}"] if failure else []
        return "completed", stop, notes + ["run_stop has no status"] * ("success" not in said)
    is_short, is_reached = _end_of_epochs(facts)
    ends = {} if is_short else facts.ends
    words = [(end.line, end.who) for key, end in ends.items() if end.word and key not in facts.repeated]
    completed, who = max(words, default=(0, None))
    trained = facts.progress.line if facts.progress else 0
    if failure:
        is_last = failure.line >= max(trained, facts.evaluated, completed) and _ends_with(tail, failure.line)
        notes = [f"line {failure.line} says: {failure.text}" + ("" if is_last else "; the run went on")]
        if is_last:
            return None if completed and failure.word == "trouble" else "failed", failure.line, notes
    is_sure = completed and (not failure or failure.who == who) and not facts.has_more_writers
    if is_reached and not (is_sure or failure or completed):
        is_sure, completed = True, max(facts.evaluated, trained)
    if is_sure and not any(_SMELLS.search(text) for number, text in tail if number > completed):
        return "completed", completed, notes
    return None, None, notes


def _end_of_epochs(facts: Facts) -> tuple[bool, bool]:
    progress, declared, seen = facts.progress, facts.declared_epochs(), facts.seen()
    is_short = bool(declared and seen and max(seen) < declared.value - (min(seen) == 0))
    if progress is None or (progress.epoch is None and progress.steps is None):
        return is_short, False
    if progress.epoch is None:
        is_cut = (progress.step or 0) < (progress.steps or 0)
        return is_short or is_cut, not (is_cut or facts.restart or progress.step is None)
    if facts.restart or declared is None or not seen or progress.epoch != max(seen) or is_short:
        return is_short, False
    if max(seen) < declared.value and declared.line in seen.values():
        return False, False  # if epochs begin with 0, the last of `Epoch 3/4` may be 3 or 4
    is_last = facts.evaluated < progress.line
    if progress.done is None or not progress.total:
        return False, not (facts.has_steps or (is_last and facts.evaluated))
    widest = progress.total if facts.widest is None else facts.widest
    return False, progress.done >= widest and not (is_last and (facts.evaluated or progress.done < progress.total))


def _ends_with(tail: list[tuple[int, str]], line: int) -> bool:
    """Return whether the log ends with a failure.

    Lines of launchers and the shell may follow the failure, and up to `_MOST_AFTER` other lines.
    """
    after = [text for number, text in tail if number > line]
    if line < tail[0][0] or any(text.startswith("real\t") for text in after):
        return False
    return sum(not (_OF_A_FAILURE.search(text) or _SMELLS.search(text)) for text in after) <= _MOST_AFTER
