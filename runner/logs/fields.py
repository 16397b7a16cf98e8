"""The fields that a line of a log may have, their units, and how each is read from its text."""

import math
import re
from typing import Any

METRICS = ("auc", "accuracy", "f1", "bleu", "map", "dice", "perplexity", "val_loss", "wer", "fid", "clip", "score")
"""What an evaluation measures; of several the first one is a log's result."""
MAY_DIVERGE = {"train_loss", "val_loss", "perplexity"}
"""What may be nan or infinite: the loss, and what is made of it."""
LOWER_IS_BETTER = {"perplexity", "val_loss", "wer", "fid"}
ABOVE_ONE = {"wer"}
"""Fractions that may be above 1."""
_COUNTS = ("epochs", "step", "steps", "done", "total", "correct", "of", "world_size", "nnodes", "nproc")
_WHOLE = (*_COUNTS, "rank", "ranks_listed")
COUNTED = {"epoch", *_WHOLE, "backend"}
"""Fields that are no measured numbers."""
_MEASURED = ("train_loss", "run_loss", *METRICS, "best_accuracy", "wall", "throughput", "speedup")
FIELDS = ("epoch", *_WHOLE, *_MEASURED, "backend")
_SHARE = ("fraction", "percent", "share")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_RATES = ("samples/s", "tokens/s", "images/s", "steps/s", "it/s", "ms/step", "s/step", "GB/s", "MB/s", "TFLOPS")
UNITS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("accuracy", "best_accuracy", "f1", "map", "dice", "wer", "score"), _SHARE),
    "auc": ("auc", *_SHARE),
    "bleu": ("bleu",),
    "perplexity": ("perplexity",),
    "val_loss": ("nats", "bits", "mse"),
    "wall": (*_SECONDS, "clock"),
    "throughput": _RATES,
    "speedup": ("times",),
}
NEED_UNITS = {"accuracy", "best_accuracy", "wall", "throughput"}
"""Fields that say nothing without a unit."""
LONGEST_WORD = 60
_CUT = re.compile(r"[.,]?\d|[eE][-+]?\d")
_THOUSANDS = re.compile(r"[ '\u2019\u00a0\u202f]\d{3}(?!\d)")
_CLOCK = re.compile(r"(?:(\d{1,4}) days?, )?(\d{1,4}):(\d\d):(\d\d(?:\.\d{1,9})?)")
_WORDS = re.compile(r"(?:(\d{1,5}) ?(?:h|小时) ?)?(?:(\d{1,5}) ?(?:m|min|分钟?) ?)?(\d{1,9}(?:\.\d{1,9})?) ?(?:s|秒)?")


def is_cut(found: re.Match[str], group: str | int) -> bool:
    """Return whether a group holds only the beginning of a number: 0 of 0,4193, 1 of 1e-05 or of `1 234.5`."""
    text, end = found[group], found.end(group)
    is_short = text.lstrip("+-").isdigit() and len(text.lstrip("+-")) <= 3
    return bool(_CUT.match(found.string, end) or (is_short and _THOUSANDS.match(found.string, end)))


def value_of(field: str, text: str, unit: str | None) -> Any:
    """Read the text of a field; None if it is no value. Only a loss may be infinite or no number."""
    if field == "backend":
        return text.lower() if len(text) <= LONGEST_WORD else None
    try:
        if field == "wall":
            return seconds(text, unit or "s")
        number: float = (int if field in _WHOLE else float)(text.replace(",", ""))
    except ValueError:
        return None
    if field in _WHOLE or field in MAY_DIVERGE or math.isfinite(number):
        return int(number) if field == "epoch" and "." not in text and number.is_integer() else number
    return None


def seconds(text: str, unit: str) -> float | None:
    """Read a duration."""
    if unit != "clock":
        value = float(text.replace(",", ""))
        value = value if unit == "s" else round(value * _SECONDS[unit], 9)
        return value if math.isfinite(value) else None
    if found := _CLOCK.fullmatch(text.strip()):
        days, hours, minutes, rest = found.groups()
    elif found := _WORDS.fullmatch(text.strip()):
        days, (hours, minutes, rest) = 0, found.groups()
    else:
        return None
    return round(((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60 + float(rest), 9)
