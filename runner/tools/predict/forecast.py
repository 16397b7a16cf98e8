"""Layouts and communications -> what to expect of each, what limits it, and which is worth its price."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import NormalDist

from runner.core.layout import Layout
from runner.report.statistics import DEFAULT, Estimate
from runner.tools.predict.base import Base
from runner.tools.predict.communication import SHARED, Communication
from runner.tools.predict.figures import FURTHEST
from runner.tools.predict.model import Cell, Inputs, Parts
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
DRAWS = 400


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
    if communication.kind == SHARED and layout.nodes > 1:
        return Expected(layout, communication, None, lacks=("it is for processes of one machine",))
    if ranks > 1 and setting.place.network is None:
        return Expected(layout, communication, None, lacks=(NETWORK,))
    if setting.place.strong and 0 < base.step.samples < ranks:
        why = f"a batch of {base.step.samples} is too small for {ranks} processes"
        return Expected(layout, communication, None, lacks=(why,))
    cell = Cell(base.step, setting.place, communication)
    chosen = None if ranks == 1 else communication
    return Expected(layout, chosen, estimate(cell, setting.inputs), cell.parts(setting.inputs.central()), setting.lacks)


def best_of(rows: Sequence[Expected]) -> Expected | None:
    """Return the row with the highest speed-up."""
    return max((row for row in rows if row.speedup is not None), key=_value, default=None)


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


def estimate(cell: Cell, inputs: Inputs) -> Estimate:
    """Return the speed-up of a cell with its interval; of one process it is 1 and has none.

    Every figure is drawn anew many times, and most of what comes out is the interval. The draws begin with the same
    number each time, so that the same records give the same interval.
    """
    point = cell.speedup(inputs.central())
    if cell.ranks == 1:
        return Estimate(point)
    normal = Random(0)  # noqa: S311 - nothing secret
    drawn = sorted(cell.speedup(inputs.drawn(lambda: normal.gauss(0.0, 1.0))) for _ in range(DRAWS))
    outside = round(DRAWS * (1 - DEFAULT.level) / 2)
    alone = math.exp(min(FURTHEST, NormalDist().inv_cdf((1 + DEFAULT.level) / 2) * inputs.whole.spread))
    # So few draws may make it narrower than what is known of the whole alone.
    return Estimate(point, min(drawn[outside], point / alone), max(drawn[-1 - outside], point * alone))
