"""Parse the MLPerf log lines of other people's programs."""

import contextlib
import json
import re
from typing import Any, NamedTuple

from runner.core.text import one_line

# :::MLL 1556733699.671 run_stop: {"value": null, "metadata": {"status": "success"}}
_TEXT_FORM = re.compile(
    r":::MLL(?:v[\d.]{1,12} \w{1,40})? (?P<time>\d{1,12}(?:\.\d{1,12})?) (?P<key>\w{1,80}) ?:? ?(?P<value>.*)$"
)
_METRICS = {"dlrm": "auc", "gnmt": "bleu", "transformer": "bleu", "rnnt": "wer", "unet3d": "dice"}
_METRICS |= {"ssd": "map", "mask": "map", "retinanet": "map"}
"""Metric that a benchmark reports as `eval_accuracy`, by the beginning of the benchmark's name."""
_LOSSES = ("gpt", "llama", "mixtral", "llm", "flux")
_SHARES = ("accuracy", "dice", "map", "wer")
_MOST_NUMBER = 10**15
OBSERVED = "observed"
"""Key of trainkit/observer's lines, which the program itself did not print."""
EVALUATION = "eval_accuracy"
"""Key of the result in every benchmark, whatever the benchmark's metric."""
MARK = ":::ML"
_KEYS = {b"run_start", b"run_stop", b"eval_accuracy", b"epoch_start", b"submission_benchmark", b"number_of_ranks"}
_KEYS |= {b"number_of_nodes", b"train_epoch"}


class Event(NamedTuple):
    """Event of MLPerf logging."""

    key: str
    value: Any
    metadata: dict[str, Any]
    time_ms: float | None


def is_of_use(line: bytes) -> bool:
    """Return whether an event line is worth decoding. Most lines are not."""
    return any(key in line for key in _KEYS)


def events(line: str) -> list[Event]:
    """Return the complete events of a line."""
    return [event for part in line.split(MARK)[1:] if (event := _event(MARK + part))]


def metric_of(benchmark: str | None) -> str:
    """Return the metric that a benchmark reports as `eval_accuracy`."""
    name = (benchmark or "").lower()
    loss = "val_loss" if any(word in name for word in _LOSSES) else "accuracy"
    return next((metric for begin, metric in _METRICS.items() if name.startswith(begin)), loss)


def unit_of(metric: str, value: float) -> str | None:
    """Return the unit of an evaluation; None if the benchmark's rules define no unit for the value."""
    if metric == "auc":
        return metric
    return "fraction" if metric in _SHARES and 0 <= value <= 1 else None


def evaluation(value: Any) -> tuple[float | int | None, str | None]:
    """Return the first number of an evaluation, and a scope.

    If there are several numbers, as for boxes and masks, the scope lists them. Otherwise the scope is None.
    """
    while isinstance(value, dict) and value.keys() & {"accuracy", "value"}:
        value = value.get("accuracy", value.get("value"))
    if isinstance(value, list):
        value = {f"value {place}": part for place, part in enumerate(value, start=1)}
    if not isinstance(value, dict):
        return number(value), None
    parts = {name: known for name, part in value.items() if (known := number(part)) is not None}
    if len(parts) < 2:
        return next(iter(parts.values()), None), None
    words = [f"{name} {known}" for name, known in parts.items()]
    return next(iter(parts.values())), one_line(f"{next(iter(parts))}; {', '.join(words[1:])}", 200)


def number(value: Any) -> float | int | None:
    """Convert a number, or a text that states one. Returns None if the value is not a finite number."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and abs(value) < _MOST_NUMBER else None


def _event(text: str) -> Event | None:
    if text.startswith(":::MLLOG"):
        data = _json(text[text.find("{") :])
        if not isinstance(data, dict) or not isinstance(data.get("key"), str) or data["key"] == OBSERVED:
            return None
        time, seconds = number(data.get("time_ms")), number(data.get("time_s"))
        time = seconds * 1_000 if time is None and seconds is not None else time
        return Event(data["key"], data.get("value"), _dict(data.get("metadata")), time or None)
    if not (match := _TEXT_FORM.match(text.rstrip())):
        return None
    value = _json(match["value"])
    extra = _dict(value)
    value = extra.get("value") if extra else value
    metadata = {**_dict(value), **_dict(extra.get("metadata"))}
    return Event(match["key"], value, metadata, float(match["time"]) * 1_000 or None)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _json(text: str) -> Any:
    """Decode a JSON value. Single quotes are accepted, because some programs write them."""
    for words in (text, text.replace("'", '"')):
        with contextlib.suppress(ValueError, RecursionError):
            return json.JSONDecoder().raw_decode(words.strip())[0]
    return None
