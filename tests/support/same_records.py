"""Two records of one cell: all that differs between them, but for where and when they ran."""

import re
from collections.abc import Iterator
from typing import Any

PLACES = (
    r"launch\.(id|target|argv|runner|host|options|option_axes|image)\b.*",
    r"outcome\.exits\.\d+\.place\b.*",
    r"ranks\.\d+\.facts\.(host|pid|python|env|link|cores|args\.data_dir)\b.*",
    r"load\b.*",
)
"""Where it ran, over which network, and with the target's options: a target may have no such fact at all."""
TIMES = (
    r"launch\.started",
    r"outcome\.(ended|wall_seconds)",
    r"phases\.\w+",
    r"metrics\.(\w+_seconds|\w+_per_second|peak_bytes)",
    r"epochs\.\d+\.(seconds|train_seconds|time_by_rank\..*)",
    r"(events|ranks\.\d+)\.?(events_)?(seen|expected)",
)
"""When it ran, how long that took, and what goes with it: in a longer run there are more events of the utilization."""
_PLACE, _TIME = (re.compile("|".join(patterns)) for patterns in (PLACES, TIMES))
_ABSENT = object()


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Name what differs, each with its two values."""
    return [f"{path}: {_shown(mine)} | {_shown(theirs)}" for path, mine, theirs in _pairs("", one, other)]


def _pairs(path: str, one: Any, other: Any) -> Iterator[tuple[str, Any, Any]]:
    kinds = {dict: lambda value: value, list: lambda value: dict(enumerate(value))}
    for kind, named in kinds.items():
        if isinstance(one, kind) and isinstance(other, kind):
            mine, theirs = named(one), named(other)
            for name in dict.fromkeys([*mine, *theirs]):
                inner = f"{path}.{name}" if path else str(name)
                yield from _pairs(inner, mine.get(name, _ABSENT), theirs.get(name, _ABSENT))
            return
    if type(one) is not type(other) or one != other:
        is_lacked = one is _ABSENT or other is _ABSENT
        if not _PLACE.fullmatch(path) and (is_lacked or not _TIME.fullmatch(path)):
            yield path, one, other


def _shown(value: Any) -> str:
    return "nothing" if value is _ABSENT else repr(value)[:200]


def curve(record: dict[str, Any]) -> list[Any]:
    """The losses and accuracies of a run, bit for bit."""
    epochs = [(one["epoch_num"], one["loss_hex"]) for one in record["epochs"]]
    return [epochs, [(one["loss_hex"], one["accuracy"]) for one in record["evaluations"]]]
