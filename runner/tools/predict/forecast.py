"""Layouts and communications -> what to expect of each, what limits it, and which is worth its price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runner.core.layout import Layout
from runner.report.statistics import Estimate
from runner.tools.predict.base import Base
from runner.tools.predict.communication import SHARED, Communication
from runner.tools.predict.interval import estimate
from runner.tools.predict.model import Cell, Parts, Place
from runner.tools.predict.place import Setting

NEAR_BEST = 0.9
"""Part of the best speed-up that is enough, if it is had with less."""
LIMITS = {
    "fixed": "work that is not shared, as the optimizer",
    "neighbours": "shared cores and memory",
    "node": "the slowest node",
    "waiting": "waiting for the slowest rank",
    "processor": "processors, by the exchange",
    "latency": "network latency",
    "bandwidth": "network bandwidth",
    "compression": "compressing or copying",
}
NETWORK = "the network"
"""What is not known where nobody has measured it."""
_LITTLE = 0.05
"""Part of a step; who loses less is limited by computing."""


@dataclass(frozen=True)
class Expected:
    """What to expect of one layout with one communication.

    `speedup` is None if it cannot be known, and `lacks` says why.
    """

    layout: Layout
    communication: Communication | None
    speedup: Estimate | None
    parts: Parts | None = None
    lacks: tuple[str, ...] = ()

    @property
    def limit(self) -> tuple[str, float]:
        """What costs most of the step, and which part of it; `compute` if nothing costs much."""
        if self.parts is None:
            return "", 0.0
        losses = self.parts.losses
        most = max(losses, key=lambda name: losses[name])
        share = losses[most] / self.parts.seconds
        if self.layout.world_size == 1 or share < _LITTLE:
            return "compute", self.parts.ideal / self.parts.seconds
        return most, share

    @property
    def price(self) -> tuple[int, int]:
        """What has to be paid for: nodes, then processes."""
        return self.layout.nodes, self.layout.world_size


def expect(base: Base, setting: Setting, layout: Layout, communication: Communication) -> Expected:
    """Predict one layout with one communication."""
    ranks = layout.world_size
    strong = base.first.scaling != "weak"
    if communication.kind == SHARED and layout.nodes > 1:
        return Expected(layout, communication, None, lacks=("it is for processes of one machine",))
    if ranks > 1 and setting.network is None:
        return Expected(layout, communication, None, lacks=(NETWORK,))
    if strong and 0 < base.step.samples < ranks:
        return Expected(
            layout, communication, None, lacks=(f"a batch of {base.step.samples} is too small for {ranks} processes",)
        )
    place = Place(layout, strong, setting.crowded, setting.network)
    cell = Cell(base.step, place, communication)
    chosen = None if ranks == 1 else communication
    return Expected(layout, chosen, estimate(cell, setting.inputs), cell.parts(setting.inputs.central()), setting.lacks)


def best_of(rows: Sequence[Expected]) -> Expected | None:
    """Return the row with the highest speed-up."""
    known = [row for row in rows if row.speedup is not None]
    return max(known, key=_value, default=None)


def cheapest_of(rows: Sequence[Expected]) -> Expected | None:
    """Return the row with the fewest nodes, then processes, whose speed-up is near the best.

    Of several the plain communication is taken if it is near too, because it changes nothing of what is trained.
    """
    best = best_of(rows)
    if best is None:
        return None
    near = [row for row in rows if row.speedup is not None and _value(row) >= NEAR_BEST * _value(best)]
    least = min(row.price for row in near)
    return next(row for row in near if row.price == least)


def _value(row: Expected) -> float:
    return row.speedup.value if row.speedup else 0.0
