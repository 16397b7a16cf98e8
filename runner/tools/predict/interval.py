"""How far a prediction may be wrong: every figure is drawn anew many times, and most of what comes out is the interval.

The draws begin with the same number each time, so that the same records give the same interval.
"""

from __future__ import annotations

import math
from random import Random
from statistics import NormalDist

from runner.report.statistics import DEFAULT, Estimate
from runner.tools.predict.figures import FURTHEST
from runner.tools.predict.model import Cell, Inputs

DRAWS = 400


def estimate(cell: Cell, inputs: Inputs) -> Estimate:
    """Return the speed-up of a cell with its interval; of one process it is 1 and has none."""
    point = cell.speedup(inputs.central())
    if cell.ranks == 1:
        return Estimate(point)
    normal = Random(0)  # noqa: S311 - nothing secret
    drawn = sorted(cell.speedup(inputs.drawn(lambda: normal.gauss(0.0, 1.0))) for _ in range(DRAWS))
    outside = round(DRAWS * (1 - DEFAULT.level) / 2)
    alone = math.exp(min(FURTHEST, NormalDist().inv_cdf((1 + DEFAULT.level) / 2) * inputs.whole.spread))
    # So few draws may make it narrower than what is known of the whole alone.
    return Estimate(point, min(drawn[outside], point / alone), max(drawn[-1 - outside], point * alone))
