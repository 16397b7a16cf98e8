"""All trainings of this folder, by name."""

from tests.trainkit.observed import doubtful, loaders, optimizers, surroundings
from tests.trainkit.observed.base import SCRIPTS

__all__ = ["SCRIPTS", "doubtful", "loaders", "optimizers", "surroundings"]
