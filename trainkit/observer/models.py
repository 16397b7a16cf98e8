"""The rows that enter the trained module: samples of programs without a loader, and a check of those with one."""

from __future__ import annotations

import sys
import weakref
from typing import Any

from .passes import rows_of

_VARIABLE = 2
"""Most sizes of the first dimension if it counts samples: the batch size, and that of a smaller last batch."""


class Model:
    """The outermost module that is called with gradients, and the rows that enter it.

    The rows of a call count as trained on if a backward pass follows before the next call with gradients.
    """

    def __init__(self) -> None:
        self.root: Any = None  # a weak reference
        self.calls = self.waiting_rows = 0  # since the last backward pass
        self.feeds = self.rows = self.other_rows = self.largest = 0
        self.entered = self.second = 0  # sums of the first and second dimensions of inputs with gradients
        self.sizes: set[int] = set()
        self.last_input: Any = None  # a weak reference, reset at each step
        self.unknown = self.uncounted = ""
        """Reasons why no figure is known, and why rows are not samples."""

    def call(self, module: Any, given: tuple[Any, ...], result: Any, *, has_gradient: bool) -> None:
        """Record a call of an outermost module."""
        if self.root is None or self.root() is not module:
            if next(module.parameters(), None) is None:  # a loss function
                return
            if has_gradient and (self.calls or self.feeds):
                self.unknown = "several modules are called"
            if has_gradient or self.root is None:
                self.root = weakref.ref(module)
            else:
                return
        found = [(one, rows) for one in given if (rows := rows_of(one)) is not None]
        if not found or isinstance(found[0][0], list) or hasattr(found[0][0], "batch_sizes"):  # a packed sequence
            self.unknown = "what the model is called with has no rows"
            return
        first, rows = found[0]
        if not has_gradient:
            self.other_rows += rows
            return
        self.calls += 1
        self.waiting_rows += rows
        self.entered += max(rows for _, rows in found)
        if hasattr(first, "dim") and first.dim() > 1 and (first.dim() > 2 or not first.is_floating_point()):
            self.second += first.size(1)  # the samples, if the first dimension is time
        self.uncounted = self.uncounted or self.doubt_of(found, rows_of(result))
        self.last_input = weakref.ref(first) if hasattr(first, "dim") else None

    def doubt_of(self, found: list[tuple[Any, int]], returned: int | None) -> str:
        """Return why the rows of a call may not be distinct samples; '' if there is no sign of that."""
        first, rows = found[0]
        if len({rows for _, rows in found}) > 1 or returned not in (None, rows):
            return "what the model is called with and what it returns differ in their first dimension"
        if hasattr(first, "dim") and first.dim() == 1 and first.is_floating_point():
            return "what the model is called with has one dimension"
        if getattr(first, "requires_grad", False) or (self.last_input and self.last_input() is first):
            return "the same samples enter the model several times"
        return ""

    def feed(self) -> None:
        """Record the start of a backward pass."""
        root = self.root and self.root()
        if root is None or self.calls != 1:
            self.unknown = "a backward pass does not follow one call of the model"
        elif not self.feeds and any(map(_may_take_time_first, root.modules())):
            self.uncounted = "the first dimension of what enters the model may be time"
        self.sizes.add(self.waiting_rows)
        if len(self.sizes) > _VARIABLE:
            self.uncounted = "the first dimension of what enters the model has many sizes"
        self.feeds += 1
        self.rows += self.waiting_rows
        self.largest = max(self.largest, self.waiting_rows)
        self.calls = self.waiting_rows = 0

    def is_called_with(self, rows: int) -> bool:
        """Return whether so many rows have entered, in the first dimension or, if that is time, in the second."""
        return self.entered >= rows or self.second == rows

    def kind(self) -> type | None:
        """Return the class whose calls to watch."""
        return None if self.unknown or self.root is None else type(self.root())


def _may_take_time_first(part: Any) -> bool:
    return getattr(part, "batch_first", True) is False or isinstance(part, sys.modules["torch"].nn.RNNCellBase)
