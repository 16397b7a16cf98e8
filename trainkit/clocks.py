"""The clocks of a script's epochs and evaluations, and what is counted while they run.

Both are opened by `trainkit.script.ScriptRun`: on all ranks, because ranks wait for each other at both ends.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from trainkit.figures import count, loss_sum, number_right, scalar
from trainkit.time_use import COMPUTE, DATA, InputTime, TimeUse


class Epoch(InputTime):
    """An epoch while it is trained, and its figures when it is done.

    Attributes:
        stop_clock: stops the clock (once) and returns the seconds; what follows in the block is no longer measured.
        samples: that this rank has trained on.
        steps: of this rank: how often `add` was called, or what a script sets.
        largest: the most samples of one call of `add`.
        input_seconds: how long this process was busy with getting batches, if they come through `timed`.
        left_out_seconds: what is not training, of the time between both ends: evaluations within the epoch.
        more: further fields of the epoch's event: a learning rate, for example.
        all_samples: that all ranks have trained on; 0 until the end.
        loss: the mean over the samples of all ranks; None until the end, and if no loss was added.
        train_seconds: of this rank, without what was left out; 0 until the end.
    """

    def __init__(
        self, number: int, stop_clock: Callable[[], float], on_progress: Callable[[int], None], time_use: TimeUse
    ) -> None:
        self.number = number
        self.stop_clock = stop_clock
        self.samples = self.steps = self.largest = self.all_samples = 0
        self.input_seconds = self.left_out_seconds = self.train_seconds = 0.0
        self.more: dict[str, Any] = {}
        self.loss: float | None = None
        self.loss_sum: Tensor | float = 0.0
        self.loss_samples = 0
        self._on_progress = on_progress
        self.time_use: TimeUse = time_use

    def fetching(self) -> None:
        """Count the time from here on as waiting for a batch, for a framework that has the loop in it."""
        self.time_use.begin(DATA)

    def fetched(self) -> None:
        """Count the time from here on as computing."""
        self.time_use.begin(COMPUTE)

    def add(self, samples: int, loss: Any = None) -> None:
        """Count a step of this rank.

        Args:
            samples: how many it trained on.
            loss: their mean loss, as a number, an array or a tensor with one element on any device; or the loss of
                each, a tensor [samples]. No step waits for it. NaN makes the epoch's loss NaN. ValueError for another
                shape, TypeError for what is no number.
        """
        samples = count("the number of samples", samples)
        if loss is not None:
            self.loss_sum = self.loss_sum + loss_sum(loss, samples)
            self.loss_samples += samples
        self.samples += samples
        self.steps += 1
        self.largest = max(self.largest, samples)
        self._on_progress(self.samples)

    def leave_out(self, seconds: float) -> None:
        """Leave seconds out of `train_seconds`, for example those of a checkpoint; not more than really went by."""
        self.left_out_seconds += max(0.0, scalar("seconds", seconds))


class Evaluation:
    """An evaluation while it runs, and its figures when it is done.

    Attributes:
        samples: of this rank, until the end; then of all ranks.
        correct: so many of them were right; None if it was never said.
        accuracy: the share of all ranks' samples, 0 to 1, at the end; or what a script sets, of all ranks together.
        loss: the mean over the samples, in the same way. Both are None if nothing was said of them.
        metrics: further ones, of all ranks together, each one number: a script fills them in.
    """

    def __init__(self) -> None:
        self.samples = 0
        self.correct: Tensor | int | None = None
        self.loss_sum: Tensor | float = 0.0
        self.loss_samples = 0
        self.accuracy: Any = None
        self.loss: Any = None
        self.metrics: dict[str, Any] = {}

    def add(self, samples: int, correct: Any = None, loss: Any = None) -> None:
        """Count a batch of this rank.

        Args:
            samples: how many it has.
            correct: how many of them are right; or for each whether it is, as an array or tensor.
            loss: as for `Epoch.add`.
        """
        samples = count("the number of samples", samples)
        if correct is not None:
            self.correct = number_right(correct) + (0 if self.correct is None else self.correct)
        if loss is not None:
            self.loss_sum = self.loss_sum + loss_sum(loss, samples)
            self.loss_samples += samples
        self.samples += samples
