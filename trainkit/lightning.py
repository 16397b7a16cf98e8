"""A callback for Lightning's Trainer that reports epochs and evaluations as events; see docs/own-repository.md.

The callback works with `lightning` and `pytorch_lightning`, whichever the script has imported. Source of the hooks and
their order: https://lightning.ai/docs/pytorch/stable/common/lightning_module.html#hooks.
"""

import importlib
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Any

from trainkit.clocks import Epoch, Evaluation
from trainkit.figures import scalar
from trainkit.script import ScriptRun

_PACKAGES = {"lightning": "lightning.pytorch", "pytorch_lightning": "pytorch_lightning"}
_ACCURACY = re.compile(r"(.*\W|.*_)?acc(uracy)?")


def _callback() -> Any:
    imported = [module for module in _PACKAGES.values() if module in sys.modules]
    installed = [module for package, module in _PACKAGES.items() if find_spec(package)]
    for module in (*imported, *installed):
        return importlib.import_module(module).Callback
    raise ImportError("trainkit.lightning needs the package lightning or pytorch-lightning, and neither is installed")


class EventLines(_callback()):  # type: ignore[misc] # the base class is only known at import
    """Runs a `ScriptRun`'s clocks during the Trainer's work; validation does not count in an epoch's seconds.

    An epoch reports samples, optimizer steps, and the mean loss that `training_step` returns. An evaluation reports its
    samples and all values logged as `val...` (`test...` when testing); `...loss` is the loss, and `...acc` or
    `...accuracy` with a value from 0 to 1 is the accuracy. As in Lightning, logged values cover all ranks only with
    `sync_dist=True`.

    Args:
        run: as returned by `running()`.
        accuracy: name under which the accuracy (0 to 1) is logged, if it differs from the above.
        samples: returns the number of samples in a batch; by default the length of its first tensor.
    """

    def __init__(
        self, run: ScriptRun, *, accuracy: str | None = None, samples: Callable[[Any], int] | None = None
    ) -> None:
        super().__init__()
        self._run = run
        self._name = accuracy
        self._samples = samples or samples_of
        self._epochs, self._evaluations = ExitStack(), ExitStack()
        self._epoch: Epoch | None = None
        self._evaluation: Evaluation | None = None
        self._steps = 0

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002 - Lightning's signature
        """Start the epoch's clock."""
        most = trainer.max_epochs
        epochs = most if isinstance(most, int) and most > 0 else None
        self._epoch = self._epochs.enter_context(self._run.epoch(trainer.current_epoch + 1, epochs=epochs))
        self._steps = trainer.global_step

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:  # noqa: ARG002
        """Count the time from now on as computing."""
        if self._epoch is not None:
            self._epoch.fetched()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:  # noqa: ARG002
        """Count a batch and its loss, which Lightning has divided by the number of batches per step."""
        if self._epoch is None:
            return
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        divided = trainer.accumulate_grad_batches if pl_module.automatic_optimization else 1
        self._epoch.add(self._samples(batch), None if loss is None else loss * divided)
        self._epoch.fetching()

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Stop the clock and report the epoch."""
        if self._epoch is not None:
            self._epoch.steps = trainer.global_step - self._steps
            self._epoch = None
            self._epochs.close()

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Start the clock of an evaluation, unless it is the sanity check before the training."""
        if not trainer.sanity_checking:
            self._evaluation = self._evaluations.enter_context(self._run.evaluation())

    def on_validation_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, *_: int) -> None:  # noqa: ARG002
        """Count a batch."""
        if self._evaluation is not None:
            self._evaluation.add(self._samples(batch))

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002
        """Stop the clock and report the logged values."""
        if self._evaluation is not None:
            self._take("test" if trainer.testing else "val", trainer.callback_metrics, self._evaluation)
            self._evaluation = None
            self._evaluations.close()

    on_test_start = on_validation_start
    on_test_batch_end = on_validation_batch_end
    on_test_end = on_validation_end

    def _take(self, stage: str, logged: Mapping[str, Any], evaluation: Evaluation) -> None:
        for name, value in logged.items():
            if name == self._name:
                evaluation.accuracy = value
            elif name.startswith(stage):
                figure = scalar(name, value)
                if name.endswith("loss") and evaluation.loss is None:
                    evaluation.loss = figure
                elif self._name is None and _ACCURACY.fullmatch(name) and 0 <= figure <= 1:
                    evaluation.accuracy = figure
                else:
                    evaluation.metrics[re.sub(r"\W", "_", name)] = figure


def samples_of(batch: Any) -> int:
    """Return the samples in a batch: the length of the first tensor in it, or 1 if there is none."""
    if isinstance(batch, Mapping):
        return next((samples_of(part) for part in batch.values()), 1)
    if isinstance(batch, list | tuple):
        return samples_of(batch[0]) if batch else 1
    shape: Any = getattr(batch, "shape", ())
    return int(shape[0]) if len(shape) else 1
