"""A callback for Hugging Face's Trainer that reports epochs and evaluations as events; see docs/own-repository.md.

Source of the hooks and their order: `transformers/trainer.py` and `trainer_callback.py` of transformers 4.57.
"""

import re
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from transformers.trainer_callback import TrainerCallback

from trainkit.clocks import Epoch
from trainkit.script import ScriptRun

_TIMES = ("runtime", "per_second", "compilation_time")


class EventLines(TrainerCallback):
    """Runs a `ScriptRun`'s clocks during the Trainer's work; evaluations do not count in an epoch's seconds.

    An epoch reports the samples that went through the model, the optimizer's steps, and the mean of the logged losses,
    which the Trainer rounds to four digits. An evaluation reports its loss, the accuracy, and all other metrics of
    `compute_metrics`.

    Args:
        run: as returned by `running()`.
        accuracy: name of the metric that is the accuracy, 0 to 1.
    """

    def __init__(self, run: ScriptRun, *, accuracy: str = "eval_accuracy") -> None:
        self._run = run
        self._accuracy = accuracy
        self._open, self._counting = ExitStack(), ExitStack()
        self._epoch: Epoch | None = None
        self._training = False
        self._begun_at = self._logged_at = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:  # noqa: ARG002 - its signature
        """Report the seed and the batch size, and start counting samples."""
        self._logged_at = state.global_step
        batch = args.train_batch_size * args.gradient_accumulation_steps * args.world_size
        self._run.report(seed=args.seed, global_batch_size=batch)
        if not getattr(args, "torch_compile", False):  # a hook would be recompiled whenever its count changes
            hook = more["model"].register_forward_pre_hook(self._count, with_kwargs=True)
            self._counting.callback(hook.remove)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:  # noqa: ARG002
        """Start the epoch's clock."""
        self._close()
        epochs = int(args.num_train_epochs) if args.max_steps <= 0 and args.num_train_epochs >= 1 else None
        self._epoch = self._open.enter_context(self._run.epoch(int(state.epoch or 0) + 1, epochs=epochs))
        self._begun_at, self._training = state.global_step, True

    def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:  # noqa: ARG002
        """Count the time from now on as computing."""
        if self._epoch is not None:
            self._epoch.fetched()

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:  # noqa: ARG002
        """Count the time from now on as waiting for the next batches."""
        if self._epoch is not None:
            self._epoch.fetching()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:  # noqa: ARG002
        """Stop the clock; the epoch is reported later, because the Trainer logs its loss after this call."""
        if self._epoch is None:
            return
        self._epoch.stop_clock()
        self._training = False
        self._epoch.steps = state.global_step - self._begun_at
        if not self._epoch.samples:  # a compiled model, without a counting hook
            self._epoch.samples = self._epoch.steps * args.train_batch_size * args.gradient_accumulation_steps

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:  # noqa: ARG002
        """Add a logged loss, which is the mean over the steps since the last log."""
        if self._epoch is None or not logs or "loss" not in logs:
            return
        steps = state.global_step - self._logged_at
        self._logged_at = state.global_step
        self._epoch.loss_sum = self._epoch.loss_sum + float(logs["loss"]) * steps
        self._epoch.loss_samples += steps
        if "learning_rate" in logs:
            self._epoch.more["lr"] = float(logs["learning_rate"])

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **more: Any) -> None:  # noqa: ARG002
        """Report an evaluation."""
        found = {name: value for name, value in (metrics or {}).items() if not name.endswith(_TIMES)}
        seconds = (metrics or {}).get("eval_runtime", 0.0)
        epoch = self._epoch.number if self._epoch is not None else int(state.epoch or 0)
        if self._epoch is not None and self._training:
            self._epoch.leave_out(seconds)
        else:
            self._close()
        self._run.evaluated(
            epoch,
            accuracy=found.pop(self._accuracy, None),
            samples=_length(more.get("eval_dataloader")),
            loss=found.pop("eval_loss", None),
            seconds=seconds,
            **_figures(found),
        )

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:  # noqa: ARG002
        """Report the last epoch."""
        self._close()
        self._counting.close()

    def _close(self) -> None:
        if self._epoch is not None:
            self._epoch = None
            self._open.close()

    def _count(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._epoch is None or not self._training or not model.training:
            return
        shapes: list[Any] = [getattr(value, "shape", ()) for value in (*args, *kwargs.values())]
        samples = next((int(shape[0]) for shape in shapes if len(shape)), 0)
        if samples:
            self._epoch.add(samples)


def _length(loader: Any) -> int | None:
    try:
        return len(loader.dataset)
    except (AttributeError, TypeError):
        return None


def _figures(metrics: Mapping[str, Any]) -> dict[str, float]:
    return {
        re.sub(r"\W", "_", name.removeprefix("eval_")): float(value)
        for name, value in metrics.items()
        if isinstance(value, int | float) and name != "epoch"
    }
