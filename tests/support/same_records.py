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


def differences(mine: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """Name what differs, each with its two values."""
    return [f"{path}: {_shown(own)} | {_shown(other)}" for path, own, other in _pairs("", mine, theirs)]


def _pairs(path: str, mine: Any, theirs: Any) -> Iterator[tuple[str, Any, Any]]:
    kinds = {dict: lambda value: value, list: lambda value: dict(enumerate(value))}
    for kind, named in kinds.items():
        if isinstance(mine, kind) and isinstance(theirs, kind):
            own, others = named(mine), named(theirs)
            for name in dict.fromkeys([*own, *others]):
                inner = f"{path}.{name}" if path else str(name)
                yield from _pairs(inner, own.get(name, _ABSENT), others.get(name, _ABSENT))
            return
    if type(mine) is not type(theirs) or mine != theirs:
        is_lacked = mine is _ABSENT or theirs is _ABSENT
        if not _PLACE.fullmatch(path) and (is_lacked or not _TIME.fullmatch(path)):
            yield path, mine, theirs


def _shown(value: Any) -> str:
    return "nothing" if value is _ABSENT else repr(value)[:200]


def curve(record: dict[str, Any]) -> list[Any]:
    """The losses and accuracies of a run, bit for bit."""
    epochs = [(epoch["epoch_num"], epoch["loss_hex"]) for epoch in record["epochs"]]
    return [epochs, [(evaluation["loss_hex"], evaluation["accuracy"]) for evaluation in record["evaluations"]]]
