"""The clocks and counts of a script's epochs and evaluations, opened by `trainkit.script.ScriptRun` on all ranks."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from trainkit.figures import count, loss_sum, number_right, scalar
from trainkit.time_use import COMPUTE, DATA, InputTime, TimeUse


class Epoch(InputTime):
    """An epoch in progress and, at its end, its figures.

    Attributes:
        stop_clock: stops the clock (once) and returns the seconds.
        samples: samples on which this rank has trained.
        steps: steps of this rank: the calls of `add`, or a number that the script sets.
        largest: the most samples in one call of `add`.
        input_seconds: time that this process spent on getting batches, if batches come through `timed`.
        left_out_seconds: time that is not training, such as evaluations.
        more: further fields of the epoch's event, such as a learning rate.
        all_samples: samples on which all ranks have trained; 0 until the end.
        loss: mean over the samples of all ranks; None until the end, and if no loss was added.
        train_seconds: training time of this rank without `left_out_seconds`; 0 until the end.
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
        """Count the time from now on as waiting for a batch, for a framework that runs the loop itself."""
        self.time_use.begin(DATA)

    def fetched(self) -> None:
        """Count the time from now on as computing."""
        self.time_use.begin(COMPUTE)

    def add(self, samples: int, loss: Any = None) -> None:
        """Count a step of this rank.

        Args:
            samples: samples in the step.
            loss: the samples' mean loss, as a number, array or one-element tensor on any device, or a tensor [samples].
                The step does not wait for the device. ValueError for another shape, TypeError for a non-number.
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
        """Exclude seconds from `train_seconds`, for example the time of a checkpoint."""
        self.left_out_seconds += max(0.0, scalar("seconds", seconds))


class Evaluation:
    """An evaluation in progress and, at its end, its figures.

    Attributes:
        samples: samples of this rank until the end, then of all ranks.
        correct: correct predictions; None if never given.
        accuracy: correct predictions over samples of all ranks, 0 to 1, set at the end; or a script's value for all
            ranks. None if never given.
        loss: mean over the samples, set like `accuracy`.
        metrics: a script's further metrics for all ranks together, one number each.
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
            samples: samples in the batch.
            correct: the number of correct predictions, or an array or tensor with one truth value per sample.
            loss: as for `Epoch.add`.
        """
        samples = count("the number of samples", samples)
        if correct is not None:
            self.correct = number_right(correct) + (0 if self.correct is None else self.correct)
        if loss is not None:
            self.loss_sum = self.loss_sum + loss_sum(loss, samples)
            self.loss_samples += samples
        self.samples += samples
