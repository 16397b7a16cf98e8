"""MLPerf log lines of other people's programs, in the three forms that the rounds have used."""

import contextlib
import json
import re
from typing import Any, NamedTuple

from runner.core.text import one_line

# :::MLPv0.5.0 resnet 1541710419.123 (train.py:12) run_stop: {"success": true}
_FIRST = re.compile(
    r":::MLPv[\d.]{1,12} (?P<benchmark>\w{1,40}) (?P<time>\d{1,12}(?:\.\d{1,12})?) (?:\([^)]{0,300}\) )?"
    r"(?P<key>\w{1,80})(?:: ?(?P<value>.*))?$"
)
# :::MLL 1556733699.671 run_stop: {"value": null, "metadata": {"status": "success"}}
_SECOND = re.compile(
    r":::MLL(?:v[\d.]{1,12} \w{1,40})? (?P<time>\d{1,12}(?:\.\d{1,12})?) (?P<key>\w{1,80}) ?:? ?(?P<value>.*)$"
)
_METRICS = {"dlrm": "auc", "gnmt": "bleu", "transformer": "bleu", "rnnt": "wer", "unet3d": "dice"}
_METRICS |= {"ssd": "map", "mask": "map", "retinanet": "map"}
"""What `eval_accuracy` is in a benchmark, by how its name begins."""
_LOSSES = ("gpt", "llama", "mixtral", "llm", "flux")
_SHARES = ("accuracy", "dice", "map", "wer")
_MOST_PARTS = 4
_TEXT = 200
MOST_NUMBER = 10**15
OBSERVED = "observed"
"""The lines of trainkit/observer: what was seen of a program, not what it says."""
EVALUATION = "eval_accuracy"
"""The result in every benchmark; which metric it is depends on the benchmark."""
MARK = b":::ML"
_KEY = b'"key": "'
_KEYS = {b"run_start", b"run_stop", b"eval_accuracy", b"epoch_start", b"submission_benchmark", b"number_of_ranks"}
_KEYS |= {b"number_of_nodes", b"train_epoch"}


class Event(NamedTuple):
    """One event line."""

    key: str
    value: Any
    metadata: dict[str, Any]
    time_ms: float | None
    benchmark: str | None = None
    """The benchmark, if the line itself names it."""


def is_of_use(line: bytes) -> bool:
    """Return whether an event line is worth decoding: most are not."""
    if line.count(_KEY) == 1:
        at = line.find(_KEY) + len(_KEY)
        return line[at : line.find(b'"', at)] in _KEYS
    return any(key in line for key in _KEYS)


def events(line: str) -> list[Event]:
    """Return the events of a line; what is torn is left out."""
    parts = line.split(MARK.decode())[1:]
    return [event for part in parts if (event := _event(MARK.decode() + part))]


def metric_of(benchmark: str | None) -> str:
    """Return what `eval_accuracy` is in a benchmark."""
    name = (benchmark or "").lower()
    loss = "val_loss" if any(word in name for word in _LOSSES) else "accuracy"
    return next((metric for begin, metric in _METRICS.items() if name.startswith(begin)), loss)


def unit_of(metric: str, value: float) -> str | None:
    """Return the unit of an evaluation; None if the value is outside of what the benchmark's rules define."""
    if metric == "auc":
        return metric
    return "fraction" if metric in _SHARES and 0 <= value <= 1 else None


def evaluation(value: Any) -> tuple[float | int | None, str | None]:
    """Return the number of an evaluation, and what it is of where there are several, for example boxes and masks."""
    while isinstance(value, dict) and value.keys() & {"accuracy", "value"}:
        value = value.get("accuracy", value.get("value"))
    if isinstance(value, list):
        value = {f"value {place}": part for place, part in enumerate(value, start=1)}
    if not isinstance(value, dict):
        return number(value), None
    parts = [(name, found) for name, part in value.items() if (found := number(part)) is not None][:_MOST_PARTS]
    if not parts:
        return None, None
    (first, result), *others = parts
    named = ", ".join(f"{name} {found}" for name, found in others)
    return result, one_line(f"{first}; {named}", _TEXT) if others else None


def number(value: Any) -> float | int | None:
    """Return a finite number, also one that is written as text."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and abs(value) < MOST_NUMBER else None


def _event(text: str) -> Event | None:
    if text.startswith(":::MLLOG"):
        data = _json(text.partition("{")[1] + text.partition("{")[2])
        if not isinstance(data, dict) or not isinstance(data.get("key"), str) or data["key"] == OBSERVED:
            return None
        time, seconds = number(data.get("time_ms")), number(data.get("time_s"))
        time = seconds * 1_000 if time is None and seconds is not None else time
        return Event(data["key"], data.get("value"), _dict(data.get("metadata")), time or None)
    found = _FIRST.match(text.rstrip()) or _SECOND.match(text.rstrip())
    if not found:
        return None
    said = found.groupdict()
    value = _json(said["value"] or "")
    extra = _dict(value)
    if found.re is _SECOND or isinstance(extra.get("metadata"), dict):
        value = extra.get("value") if isinstance(value, dict) else value
        extra = {**_dict(value), **_dict(extra.get("metadata"))}
    if "success" in extra:
        word = str(extra["success"]).lower()
        extra["status"] = "success" if word in ("true", "1") else f"success: {word}"
    if "epoch" in extra:
        extra.setdefault("epoch_num", extra["epoch"])
    return Event(said["key"], value, extra, float(said["time"]) * 1_000 or None, said.get("benchmark"))


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _json(text: str) -> Any:
    """Decode a value; some programs write parts of it with the quotes of Python."""
    for words in (text, text.replace("'", '"')):
        with contextlib.suppress(ValueError, RecursionError):
            return _DECODER.raw_decode(words.strip())[0]
    return None


_DECODER = json.JSONDecoder()
