"""What one line of a log said."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from runner.logs.origin import Origin


@dataclass
class Record:
    """What one line said, by one dialect."""

    line: int
    text: str
    origin: Origin
    dialect: str
    best: str = "computed"
    fields: dict[str, Any] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    weak: set[str] = field(default_factory=set)
    says: set[str] = field(default_factory=set)
    scopes: dict[str, str] = field(default_factory=dict)
    """What a field's value is of, as its pattern says."""
    epoch: float | int | None = None
    """The epoch that the line names for its evaluation."""
    lines: int = 1
    """How many lines it stands for: `kinds.py` leaves those out that can change nothing but these two counts."""
    is_cut: bool = False
    """Whether only the beginning of a number was read, and left out."""

    @property
    def trains(self) -> bool:
        """Whether it is of the training."""
        return "train_loss" in self.fields or "steps" in self.fields
