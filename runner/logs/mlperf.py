"""MLPerf log lines of other people's programs, in the three forms that the rounds have used."""

import contextlib
import json
import re
from typing import Any, NamedTuple

from runner.core.text import one_line

_NEW = ":::MLLOG"
# :::MLPv0.5.0 resnet 1541710419.123 (train.py:12) run_stop: {"success": true}
_FIRST = re.compile(
    r":::MLPv[\d.]{1,12} (\w{1,40}) (\d{1,12}(?:\.\d{1,12})?) (?:\([^)]{0,300}\) )?(\w{1,80})(?:: ?(.*))?$"
)
# :::MLL 1556733699.671 run_stop: {"value": null, "metadata": {"status": "success"}}
_SECOND = re.compile(r":::MLL(?:v[\d.]{1,12} \w{1,40})? (\d{1,12}(?:\.\d{1,12})?) (\w{1,80}) ?:? ?(.*)$")
_METRICS = {"dlrm": "auc", "gnmt": "bleu", "transformer": "bleu", "rnnt": "wer", "unet3d": "dice"}
_METRICS |= {"ssd": "map", "mask": "map", "retinanet": "map"}
"""What `eval_accuracy` is in a benchmark, by how its name begins."""
_LOSSES = ("gpt", "llama", "mixtral", "llm", "flux")
_SHARES = ("accuracy", "dice", "map", "wer")
_MOST_PARTS = 4
_DEEPEST = 5
"""Values within each other of which the innermost one is still an evaluation."""
_TEXT = 200
MOST_NUMBER = 10**15
OBSERVED = "observed"
"""The lines of trainkit/observer: what was seen of a program, not what it says."""
EVALUATION = "eval_accuracy"
"""What every benchmark calls its result; which metric it is depends on the benchmark."""


class Event(NamedTuple):
    """One event line."""

    key: str
    value: Any
    metadata: dict[str, Any]
    time_ms: float | None
    benchmark: str | None = None
    """The benchmark, if the line itself names it."""


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


def unit_of(metric: str, value: float) -> str | None:
    """Return the unit of an evaluation; None if the value is outside of what the benchmark's rules define."""
    if metric == "auc":
        return metric
    return "fraction" if metric in _SHARES and 0 <= value <= 1 else None


def evaluation(value: Any, levels: int = _DEEPEST) -> tuple[float | int | None, str | None]:
    """Return the number of an evaluation, and what it is of where there are several, for example boxes and masks."""
    if isinstance(value, list):
        value = {f"value {place}": part for place, part in enumerate(value[:_MOST_PARTS], start=1)}
    if not isinstance(value, dict):
        return number(value), None
    for key in ("accuracy", "value"):
        if key in value:
            return evaluation(value[key], levels - 1) if levels else (None, None)
    parts = [(name, found) for name, part in value.items() if (found := number(part)) is not None][:_MOST_PARTS]
    if len(parts) < 2:
        return (parts[0][1] if parts else None), None
    others = ", ".join(f"{name} {found}" for name, found in parts[1:])
    return parts[0][1], one_line(f"{parts[0][0]}; {others}", _TEXT)


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
        return _new(_json(text[len(_NEW) :].lstrip()))
    if found := _FIRST.match(text.rstrip()):
        return _first(found)
    if found := _SECOND.match(text.rstrip()):
        data = _json(found[3]) if found[3] else None
        data = data if isinstance(data, dict) else {"value": data}
        return Event(found[2], data.get("value"), _dict(data.get("metadata")), _moment(float(found[1]) * 1_000))
    return None


def _new(data: Any) -> Event | None:
    if not isinstance(data, dict) or not isinstance(data.get("key"), str) or data["key"] == OBSERVED:
        return None
    time = number(data.get("time_ms"))
    seconds = number(data.get("time_s"))
    if time is None and seconds is not None:
        time = seconds * 1_000
    return Event(data["key"], data.get("value"), _dict(data.get("metadata")), _moment(time))


def _first(found: re.Match[str]) -> Event:
    value = _json(found[4]) if found[4] else None
    if isinstance(value, dict) and isinstance(value.get("metadata"), dict):
        inner = value.get("value")
        extra = {**_dict(inner), **value["metadata"]}
        value = inner
    else:
        extra = _dict(value)
    if "success" in extra:
        word = str(extra["success"]).lower()
        extra = {**extra, "status": "success" if word in ("true", "1") else f"success: {word}"}
    if "epoch" in extra:
        extra = {"epoch_num": extra["epoch"], **extra}
    return Event(found[3], value, extra, _moment(float(found[2]) * 1_000), found[1])


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _moment(time_ms: float | None) -> float | None:
    """Return a time; 0 is what tools write that add a line later."""
    return time_ms if time_ms and time_ms > 0 else None


def _json(text: str) -> Any:
    """Decode a value; some programs write parts of it with the quotes of Python."""
    for words in (text, text.replace("'", '"')) if "'" in text else (text,):
        with contextlib.suppress(ValueError, RecursionError):
            return _DECODER.raw_decode(words.strip())[0]
    return None


_DECODER = json.JSONDecoder()
