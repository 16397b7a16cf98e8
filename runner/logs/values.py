"""What a line of a log says, and what is kept of values that are said more than once or by more than one process."""

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from runner.logs.fields import LOWER_IS_BETTER
from runner.logs.origin import Origin

MOST_KEPT = 20
"""Different values that are kept for one fact."""
MOST_WRITERS = 4_096
Writer = tuple[int, int, str]


@dataclass
class Record:
    """What one line says, by one dialect."""

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
    """How many lines it stands for: `scan.py` leaves those out that can change nothing but a count."""
    is_cut: bool = False
    """Whether only the beginning of a number was read, and left out."""

    @property
    def trains(self) -> bool:
        """Return whether it is of the training."""
        return "train_loss" in self.fields or "steps" in self.fields

    def duplicate(self) -> "Record":
        """Return the same record with fields of its own, which `Facts` may change."""
        own = replace(self, fields=dict(self.fields), units=dict(self.units), scopes=dict(self.scopes))
        own.weak, own.says = set(self.weak), set(self.says)
        return own


class Value(NamedTuple):
    """A value and where it stands."""

    value: Any
    line: int
    text: str = ""
    unit: str | None = None
    scope: str | None = None
    weak: bool = False
    epoch: float | int | None = None
    samples: int | None = None
    """Of how many samples an accuracy is."""
    is_guessed: bool = False
    """Whether the unit is known only by the size of the value."""

    @property
    def comparable(self) -> float:
        """Return a number to compare with others: of 98.5 percent 0.985."""
        number: float = self.value / 100 if self.unit == "percent" else self.value
        return number


@dataclass
class Fact:
    """A value that is the same for the whole run, for example the number of processes."""

    values: list[Value] = field(default_factory=list)

    def add(self, value: Value) -> None:
        """Keep a value that differs from those before; a strong one after a weak one is kept beside it."""
        known = [(kept.value, kept.weak) for kept in self.values]
        if len(self.values) < MOST_KEPT and (value.value, value.weak) not in known:
            self.values.append(value)

    def agreed(self) -> Value | None:
        """Return the value, if all that is said about it agrees; the weak ones count where nothing else is said."""
        strong = [value for value in self.values if not value.weak] or self.values
        return strong[0] if len({value.value for value in strong}) == 1 else None

    def contradictory(self) -> list[Value]:
        """Return the values, if they differ."""
        return self.values if len({value.value for value in self.values}) > 1 else []


@dataclass
class LastValues:
    """A value that changes as the run goes on: the last one of each writer."""

    by_writer: dict[Writer, Value] = field(default_factory=dict)
    is_repeated: bool = False
    """Whether a writer said more than one."""

    def add(self, writer: Writer, value: Value) -> None:
        """Keep the last value of a writer; of too many, those of the lowest ranks and names."""
        self.is_repeated |= writer in self.by_writer
        self.by_writer[writer] = value
        if len(self.by_writer) > 2 * MOST_WRITERS:
            self.by_writer = dict(sorted(self.by_writer.items())[:MOST_WRITERS])

    def chosen(self) -> Value | None:
        """Return the last value of the lowest rank that says one."""
        return self.by_writer[min(self.by_writer)] if self.by_writer else None


@dataclass
class Evaluations:
    """The evaluations of one metric by one writer."""

    last: Value
    highest: Value
    lowest: Value
    stated_best: bool
    """Whether the best is only taken where it is stated."""
    count: int = 0
    samples: set[int | None] = field(default_factory=set)
    """Of how many samples they are; with several, of unlike data, none is the best."""
    guessed_units: set[str | None] = field(default_factory=set)
    """With several of them nobody knows what a value is: 0.9 beside 45.1 is perhaps a percentage too."""

    def add(self, value: Value) -> None:
        """Take the next evaluation."""
        self.count += 1
        self.last = value
        self.samples.add(value.samples)
        self.guessed_units |= {value.unit} if value.is_guessed else set()
        if math.isfinite(value.comparable):
            is_first = not math.isfinite(self.highest.comparable)
            self.highest = value if is_first or value.comparable > self.highest.comparable else self.highest
            self.lowest = value if is_first or value.comparable < self.lowest.comparable else self.lowest

    def best(self, metric: str) -> Value:
        """Return the best one, which depends on what is measured."""
        return self.lowest if metric in LOWER_IS_BETTER else self.highest
