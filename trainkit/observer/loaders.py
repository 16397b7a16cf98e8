"""The batches of all data loaders of a process."""

from __future__ import annotations

import time
from threading import get_ident
from typing import Any

from .passes import Pass

ISSUED = "_kit_issued"
_OF_ITERATOR = "_kit_pass"
_clock = time.perf_counter


class Loaders:
    """The passes in progress, and the totals of finished ones."""

    def __init__(self, unknown: dict[str, str]) -> None:
        self.unknown = unknown
        self.passes: list[Pass] = []
        self.fed: Pass | None = None
        self.batches = self.rows = self.other_rows = self.whole = self.largest = 0
        self.whole_rows: int | None = None
        self.dataset: int | None = None
        self.seconds = 0.0
        self.is_used = self.is_interrupted = False

    def doubt(self, why: str) -> None:
        """Mark the sample counts as unknown; the first reason is kept."""
        for name in ("samples", "batches", "samples_without_gradient", "passes", "samples_per_pass"):
            self.unknown.setdefault(name, why)

    def pass_of(self, iterator: Any) -> Pass:
        """Return the current pass of an iterator."""
        found = iterator.__dict__.get(_OF_ITERATOR)
        if found is None or found.owner is not self.passes:  # inherited from the parent process
            found = iterator.__dict__[_OF_ITERATOR] = Pass(iterator, self.passes)
        return found  # type: ignore[no-any-return]

    def pass_begun(self, iterator: Any) -> None:
        """Record that an iterator restarts."""
        iterator.__dict__.pop(ISSUED, None)
        before = iterator.__dict__.pop(_OF_ITERATOR, None)
        if before in self.passes:
            self.passes.remove(before)
            self.fold(before)

    def pass_ended(self, iterator: Any) -> None:
        """Record that an iterator is exhausted."""
        self.pass_of(iterator).ended = True

    def hand_out(self, iterator: Any, batch: Any, began: float) -> None:
        """Record a batch that a loader returned."""
        found = self.pass_of(iterator)
        found.seconds += _clock() - began
        if not self.passes or self.passes[-1] is not found:
            self.is_used = True
            self.close(ended=True)
            if found in self.passes:
                self.passes.remove(found)
            self.passes.append(found)  # ordered by their last batch
        issued = iterator.__dict__.get(ISSUED)
        rows = found.size_of(batch, issued.pop(0) if issued else None)
        if rows is None:
            self.doubt("the size of a batch cannot be told")
        found.hand_out(rows or 0)

    def close(self, *, ended: bool = False) -> None:
        """Fold passes whose iterator is gone and, with `ended`, exhausted ones."""
        for one in tuple(self.passes):
            if one.iterator() is None or (ended and one.ended):
                self.fold(one)
                self.passes.remove(one)

    def fold(self, one: Pass) -> None:
        """Add a pass to the totals."""
        if not one.feeds:
            self.other_rows += one.waiting_rows
            self.is_interrupted = True
            return
        ahead, rows = one.ahead()
        if rows is None:
            self.doubt("batches of several sizes were fetched ahead or passed over")
        self.batches, self.rows = self.batches + one.batches - ahead, self.rows + one.rows - (rows or 0)
        self.seconds += one.seconds
        self.largest = max(self.largest, one.largest)
        self.dataset = one.dataset
        if one.is_whole and not ahead:
            self.whole += 1
            self.whole_rows = one.rows

    def feed(self) -> bool:
        """Record a backward pass on the latest batches; return whether there were any."""
        self.close()
        newest = None
        for one in self.passes:
            one.after_end += one.ended
            if one.waiting:
                newest = one
        if newest is None:
            return False
        if len(self.passes) > 1:
            self.leave_others(newest)
        if newest is not self.fed:
            self.leave_unstepped()
            self.fed = newest
        if newest.thread != get_ident():
            self.doubt("another thread fetches the batches")
        if why := newest.feed():
            self.doubt(why)
        return True

    def leave_unstepped(self) -> None:
        """Mark samples as unknown if gradients of the last pass were not used in a step, as in adversarial attacks."""
        if self.fed is not None and not self.fed.is_stepped:
            self.doubt("gradients were computed of batches that no step followed")

    def leave_others(self, newest: Pass) -> None:
        """Count waiting batches of other loaders as evaluation, if that is possible."""
        for one in self.passes:
            if one.waiting and one is not newest:
                if one.feeds or one.was_left:
                    self.doubt("batches of several loaders come in turn")
                one.was_left = self.is_interrupted = True
                self.other_rows += one.waiting_rows
                one.waiting = one.waiting_rows = 0
        if newest.was_left:
            self.doubt("batches of several loaders come in turn")

    def done(self) -> tuple[int, float]:
        """Return the rows trained on so far, and the seconds spent waiting for them."""
        rows, seconds = self.rows, self.seconds
        for one in self.passes:
            if one.feeds:
                rows += one.rows - (one.ahead()[1] or 0)
                seconds += one.seconds
        return rows, seconds

    def least_rows(self) -> int:
        """Return the rows trained on so far, without those that may have been prefetched."""
        return self.rows + sum(one.rows - one.ahead()[0] * one.largest for one in self.passes if one.feeds)

    def most_rows(self) -> int:
        """Return all rows handed out so far, which may have been trained on."""
        return self.rows + sum(one.rows + one.waiting_rows for one in self.passes)

    def totals(self, unknown: dict[str, str]) -> Loaders:
        """Return a copy that includes the passes in progress."""
        copy = Loaders(unknown)
        copy.__dict__.update(self.__dict__, unknown=unknown, passes=[])
        copy.leave_unstepped()
        for one in self.passes:
            copy.fold(one)
        return copy
