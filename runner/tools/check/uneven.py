"""Ranks that take unequal numbers of steps, and so wait for each other in vain."""

import math
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from runner.core import clock
from runner.tools.check.observation import Rank, read

_STILL_SECONDS = 20.0
"""So long no rank does anything that is seen before it is asked whether they take unequal numbers of steps."""
_OVER = ("waits", "destroy", "end")


def uneven(ranks: list[Rank], *, stand_still: bool) -> str:
    """Say by what the ranks' numbers of steps differ, once a run failed or all stand still; nothing if they do not."""
    backwards = [sum(1 for _ in rank.of("backward")) for rank in ranks]
    if len(set(backwards)) < 2:
        return ""
    passes = [[own for own in rank.loaders if own.trains] for rank in ranks]
    for several in zip_longest(*passes):
        ended = [own.length or (None if own.is_broken else len(own.batches)) if own else None for own in several]
        if len({*ended, None}) > 2:
            return _said(ended, "batches an epoch")
    least = ranks[backwards.index(min(backwards))]
    if stand_still and least.events[-1]["kind"] in _OVER:
        return _said(backwards, "backward passes")
    return ""


class Stillness:
    """Watches what the ranks of a run write to a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._size, self._since = folder, -1, 0.0

    def uneven(self) -> str:
        """Say by what their numbers of steps differ, if nothing was written for some time."""
        size, now = sum(path.stat().st_size for path in self._folder.glob("*.jsonl")), clock.monotonic()
        if size != self._size:
            self._size, self._since = size, now
        elif now > self._since + _STILL_SECONDS:
            self._since = math.inf  # until something is written again
            return uneven(read(self._folder), stand_still=True)
        return ""


def _said(numbers: Sequence[int | None], what: str) -> str:
    first, *others = [f"rank {rank} has {number or 'more'}" for rank, number in enumerate(numbers)]
    return f"{', '.join([f'{first} {what}', *others])}: the ranks take unequal numbers of steps"
