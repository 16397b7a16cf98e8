"""What enters the module that is trained, for programs without a loader."""

from __future__ import annotations

import weakref
from typing import Any

from .passes import rows_of


class Model:
    """The outermost module that is called with gradients, and the rows that enter it.

    The rows of a call count as trained on if a backward pass follows it, before any other call with gradients.
    """

    def __init__(self) -> None:
        self.root: Any = None  # a weak reference
        self.calls = self.waiting_rows = 0  # since the last backward pass
        self.feeds = self.rows = self.other_rows = self.largest = 0
        self.unknown = ""

    def call(self, module: Any, given: tuple[Any, ...], *, has_gradient: bool) -> None:
        """Take in a call of an outermost module."""
        if self.root is None or self.root() is not module:
            if next(module.parameters(), None) is None:  # a loss
                return
            if has_gradient and (self.calls or self.feeds):
                self.unknown = "several modules are called"
            if has_gradient or self.root is None:
                self.root = weakref.ref(module)
            else:
                return
        first, rows = next(((one, rows) for one in given if (rows := rows_of(one)) is not None), (None, 0))
        if first is None or isinstance(first, list) or hasattr(first, "batch_sizes"):  # of a packed sequence
            self.unknown = "what the model is called with has no rows"
        elif has_gradient:
            self.calls += 1
            self.waiting_rows += rows
        else:
            self.other_rows += rows

    def feed(self) -> None:
        """Take in that a backward pass begins."""
        root = self.root and self.root()
        if root is None or self.calls != 1:
            self.unknown = "a backward pass does not follow one call of the model"
        elif not self.feeds and any(getattr(part, "batch_first", True) is False for part in root.modules()):
            self.unknown = "the first dimension of what enters the model may be time"
        self.feeds += 1
        self.rows += self.waiting_rows
        self.largest = max(self.largest, self.waiting_rows)
        self.calls = self.waiting_rows = 0

    def kind(self) -> type | None:
        """Return the class whose calls are worth watching."""
        return None if self.unknown or self.root is None else type(self.root())
