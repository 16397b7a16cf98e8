"""The batches of one pass through a loader, and how many of them were trained on."""

from __future__ import annotations

import sys
import weakref
from collections import UserDict
from threading import get_ident
from typing import Any

DEEPEST = 4


class Pass:
    """One pass through a loader: the batches handed out, and those that a backward pass followed.

    A batch counts as trained on when gradients are computed after it. Prefetching, or skipping batches at the start,
    shows as more batches before the first backward pass than before later ones.
    """

    def __init__(self, iterator: Any, owner: Any) -> None:
        self.iterator, self.owner = weakref.ref(iterator), owner
        self.length, self.dataset = _length(iterator), _length(iterator._dataset)
        self.handed = self.waiting = self.waiting_rows = 0
        self.batches = self.rows = self.feeds = 0
        self.first = self.first_rows = self.each = 0
        self.smallest, self.largest = sys.maxsize, 0
        self.after_end = self.thread = 0
        self.is_batched, self.is_map = iterator._auto_collation, iterator._dataset_kind == 0  # _DatasetKind.Map
        self.ends = max(1, iterator._num_workers)  # of a stream, each worker may return a short last batch
        self.ended = self.is_short = self.was_left = self.is_stepped = False
        self.seconds = 0.0

    def size_of(self, batch: Any, asked: int | None) -> int | None:
        """Return the samples of a batch for which a sampler issued `asked` indices; None if unknown."""
        if asked and self.is_batched and self.is_map:  # even if collation reshapes them
            return asked
        rows = rows_of(batch)
        if asked and self.is_batched and rows is not None and rows != asked:
            self.ends -= 1
            return rows if rows < asked and self.ends >= 0 else None
        return rows

    def hand_out(self, rows: int) -> None:
        """Record a batch of so many rows."""
        self.handed += 1
        self.waiting += 1
        self.waiting_rows += rows
        self.thread = get_ident()
        if rows > self.largest:
            self.largest = rows
        if rows < self.smallest:
            self.smallest = rows

    def feed(self) -> str | None:
        """Record a backward pass on the waiting batches; return why counts are unknown from now on, or None."""
        why = None
        self.feeds += 1
        if self.feeds == 1:
            self.first, self.first_rows = self.waiting, self.waiting_rows
        else:
            if self.feeds == 2:
                self.each = self.waiting
            if self.is_short or self.waiting > self.each:
                why = "some batches were passed over, or several were joined"
            self.is_short = self.waiting < self.each
        self.batches, self.rows = self.batches + self.waiting, self.rows + self.waiting_rows
        self.waiting = self.waiting_rows = 0
        return why

    def ahead(self) -> tuple[int, int | None]:
        """Return how many batches counted in `feed` were not trained on, and their rows; None if unknown."""
        ahead = self.first - (self.each or 1) if self.feeds else 0
        if ahead <= 0 or (self.ended and self.after_end >= ahead):  # prefetched batches were used after the end
            return 0, 0
        if self.smallest == self.largest:
            return ahead, ahead * self.largest
        if ahead > 1 and self.first_rows == self.first * self.largest:  # skipped at the start
            return ahead, ahead * self.largest
        return ahead, None

    @property
    def is_whole(self) -> bool:
        """Whether all batches were handed out, and a backward pass followed the last one."""
        return not self.waiting and (self.ended or self.handed == self.length)


def rows_of(batch: Any, depth: int = 0) -> int | None:
    """Return the first dimension of a batch's first tensor, or the length of a list; None if it has neither."""
    if hasattr(batch, "size") and hasattr(batch, "dim"):
        return int(batch.size(0)) if batch.dim() else None
    if depth >= DEEPEST:
        return None
    if isinstance(batch, (dict, UserDict)):  # other mappings may compute values on access
        batch = list(batch.values())
    if not isinstance(batch, (list, tuple)) or not batch:
        return None
    inner = next((rows for part in batch if (rows := rows_of(part, depth + 1)) is not None), None)
    return len(batch) if inner is None and isinstance(batch, list) else inner


def _length(what: Any) -> int | None:
    try:
        return len(what)
    except Exception:  # noqa: BLE001 - the class is the program's
        return None
