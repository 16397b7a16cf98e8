"""The ways in which processes exchange what they learned: how many bytes, how often, and at which price besides."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from runner.core.errors import RequestError, did_you_mean
from runner.core.text import one_line
from runner.tools.predict.step import Bucket, Step

PLAIN, SHARED = "ddp", "shared-memory"
NUMBERS = {"powersgd": ("its rank", 2), "local-sgd": ("its steps", 32), "diloco": ("its steps", 32)}
"""What the number behind `=` is, and what it is if none is given."""
KINDS = (PLAIN, SHARED, "fp16", "bf16", *NUMBERS)
ACCUMULATE = "accumulate"
_HALVES = ("fp16", "bf16")
_HALF_BYTES = 2
_MOST_DIGITS = 6
_LOW_RANK_PASSES, _PASSES_A_RANK = 16.0, 1.0
"""How often gradients go through the memory to become two thin matrices and gradients again, with what is left over
kept for the next step; and what each column of the thin matrices adds."""
_SHARED_PASSES = 5.0
"""The same for memory that all processes of a machine see: one writes its own gradients there, and adds up all."""
_SIGNAL = 4.0
"""Bytes by which processes say that they have written theirs."""


class Exchange(NamedTuple):
    """Bytes that are summed over all ranks, when they are there, and in how many calls."""

    size: float
    ready: float
    calls: float
    half: bool = False


@dataclass(frozen=True)
class Communication:
    """One way of exchanging.

    `number` is the rank of PowerSGD, or the steps between two exchanges of parameters; `accumulate` the parts of a
    batch whose gradients are exchanged together.
    """

    kind: str = PLAIN
    number: int = 1
    accumulate: int = 1

    def __str__(self) -> str:
        words = [f"{self.kind}={self.number}" if self.kind in NUMBERS else self.kind]
        return "+".join([*words, f"{ACCUMULATE}={self.accumulate}"] if self.accumulate > 1 else words)

    @classmethod
    def parse(cls, text: str) -> Communication:
        """Read `fp16`, `powersgd=4` or `fp16+accumulate=4`; RequestError says what there is."""
        words = dict(word.partition("=")[::2] for word in text.split("+"))
        accumulate = _number(text, ACCUMULATE, words.pop(ACCUMULATE)) if ACCUMULATE in words else 1
        kind, digits = words.popitem() if words else (PLAIN, "")
        if kind not in KINDS or words:
            msg = f"--communication {one_line(text, 60)}: unknown{did_you_mean(kind, (*KINDS, ACCUMULATE))}"
            raise RequestError(msg)
        if kind not in NUMBERS:
            if digits:
                raise RequestError(f"--communication {one_line(text, 60)}: {kind} takes no number")
            return cls(kind, accumulate=accumulate)
        return cls(kind, _number(text, kind, digits) if digits else NUMBERS[kind][1], accumulate)

    @property
    def at_once(self) -> bool:
        """Whether all is exchanged when a step is over: the parameters, not the gradients."""
        return self.kind in ("local-sgd", "diloco")

    def every(self, steps: float = 0.0, parts: int = 1) -> float:
        """Return for how many steps of one process there is one exchange, in the mean.

        An epoch has so many `steps`, 0 if nobody knows, and an exchange at its end. A step adds up `parts` already.
        """
        wished = (self.number if self.at_once else 1) * self.accumulate / parts
        return max(1.0, steps) / math.ceil(max(1.0, steps) / wished) if self.at_once and steps else wished

    def exchanges(self, step: Step) -> list[Exchange]:
        """Return what one exchange consists of, in the order in which it begins."""
        if self.at_once:
            return [Exchange(step.gradient_bytes, 1.0, 1.0)]
        buckets = step.buckets or (Bucket(step.gradient_bytes, 1.0),)
        if self.kind == SHARED:
            return [Exchange(_SIGNAL, 1.0, 2.0)]
        if self.kind == "powersgd":  # nothing is hidden; in each bucket the second thin matrix needs the first
            return [Exchange(step.gradient_bytes * self._low_rank(step), 1.0, 2.0 * len(buckets))]
        half = self.kind in _HALVES and step.element_bytes > _HALF_BYTES
        share = _HALF_BYTES / step.element_bytes if half else 1.0
        return [
            Exchange(bucket.size * share, bucket.ready if step.in_backward else 1.0, bucket.calls, half)
            for bucket in buckets
        ]

    def moved_bytes(self, step: Step, ranks: int, steps: float) -> float:
        """Return the bytes that an optimizer's step moves between all ranks, if sums go around a ring."""
        handed = step.gradient_bytes if self.kind == SHARED else sum(exchange.size for exchange in self.exchanges(step))
        sums = handed / self.every(steps, step.parts) * self.accumulate / step.parts
        return (ranks - 1) * (2 * sums + (0.0 if self.at_once else step.broadcast_bytes))

    def memory_bytes(self, step: Step) -> float:
        """Return the bytes that go through a rank's memory in one exchange, beside those of a sum."""
        low_rank = _LOW_RANK_PASSES + _PASSES_A_RANK * self.number
        return {"powersgd": low_rank, SHARED: _SHARED_PASSES}.get(self.kind, 0.0) * step.gradient_bytes

    def cast_bytes(self, step: Step) -> float:
        """Return the bytes that a rank makes half as long and long again, in one exchange."""
        return step.gradient_bytes if self.kind in _HALVES and step.element_bytes > _HALF_BYTES else 0.0

    def _low_rank(self, step: Step) -> float:
        """Return which share of the bytes is left: a matrix is exchanged as two thin ones where these are smaller."""
        numbers = step.gradient_bytes / step.element_bytes
        saved = 0.0
        for rows, columns, many in step.matrices:
            thin = (rows + columns) * self.number
            saved += many * max(0, rows * columns - thin)
        return min(1.0, max(0.0, 1 - saved / numbers)) if numbers else 1.0


def _number(text: str, kind: str, digits: str) -> int:
    if digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS and int(digits):
        return int(digits)
    what, usual = NUMBERS.get(kind, ("its parts", 4))
    example = f"{what} as a whole number from 1, for example {kind}={usual}"
    raise RequestError(f"--communication {one_line(text, 60)}: write {example}")
