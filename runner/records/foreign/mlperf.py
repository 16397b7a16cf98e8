"""MLPerf log lines of other people's programs, in the three forms that the rounds have used."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

_NEW = ":::MLLOG"
# :::MLPv0.5.0 resnet 1541710419.123 (train.py:12) run_stop: {"success": true}
_FIRST = re.compile(
    r":::MLPv[\d.]{1,12} \w{1,40} (\d{1,12}(?:\.\d{1,12})?) (?:\([^)]{0,300}\) )?(\w{1,80})(?:: (.*))?$"
)
# :::MLL 1556733699.671 run_stop: {"value": null, "metadata": {"status": "success"}}
_SECOND = re.compile(r":::MLL(?:v[\d.]{1,12} \w{1,40})? (\d{1,12}(?:\.\d{1,12})?) (\w{1,80}) ?:? ?(.*)$")
_METRICS = {
    "dlrm": "auc",
    "gnmt": "bleu",
    "transformer": "bleu",
    "rnnt": "wer",
    "unet3d": "dice",
    "ssd": "map",
    "maskrcnn": "map",
    "retinanet": "map",
}
_LOSSES = ("gpt", "llama", "mixtral", "llm", "flux")
MOST_NUMBER = 10**15


class Event(NamedTuple):
    """One event line."""

    key: str
    value: Any
    metadata: dict[str, Any]
    time_ms: float | None


def events(line: str) -> list[Event]:
    """Return the events of a line; what is torn is left out."""
    parts = line.split(":::ML")[1:]
    return [event for part in parts if (event := _event(":::ML" + part))]


def metric_of(benchmark: str | None) -> str:
    """Return what `eval_accuracy` is in a benchmark."""
    name = (benchmark or "").lower()
    for begin, metric in _METRICS.items():
        if name.startswith(begin):
            return metric
    return "val_loss" if any(word in name for word in _LOSSES) else "accuracy"


def number(value: Any) -> float | int | None:
    """Return a finite number, also one that is written as text."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < MOST_NUMBER else None


def _event(text: str) -> Event | None:
    if text.startswith(_NEW):
        data = _json(text[len(_NEW) :].lstrip())
        if not isinstance(data, dict) or not isinstance(data.get("key"), str):
            return None
        metadata = data.get("metadata")
        time = number(data.get("time_ms"))
        return Event(data["key"], data.get("value"), metadata if isinstance(metadata, dict) else {}, time)
    if found := _FIRST.match(text.rstrip()):
        value = _json(found[3]) if found[3] else None
        if isinstance(value, dict) and isinstance(value.get("metadata"), dict):
            inner = value.get("value")
            extra = {**(inner if isinstance(inner, dict) else {}), **value["metadata"]}
            value = inner
        else:
            extra = value if isinstance(value, dict) else {}
        if "success" in extra:
            extra = {**extra, "status": "success" if extra["success"] is True else "aborted"}
        if found[2] == "eval_accuracy" and isinstance(extra.get("value"), int | float):
            value = extra["value"]
        return Event(found[2], value, extra, float(found[1]) * 1_000)
    if found := _SECOND.match(text.rstrip()):
        data = _json(found[3]) if found[3] else None
        data = data if isinstance(data, dict) else {"value": data}
        metadata = data.get("metadata")
        return Event(
            found[2], data.get("value"), metadata if isinstance(metadata, dict) else {}, float(found[1]) * 1_000
        )
    return None


def _json(text: str) -> Any:
    try:
        return _DECODER.raw_decode(text.strip())[0]
    except (ValueError, RecursionError):
        return None


_DECODER = json.JSONDecoder()
