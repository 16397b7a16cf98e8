"""Report a run of any training script as events, with three lines added to the script.

Threads, determinism, memory and devices stay as the script sets them. The script, `run.join()` or a framework may
create the process group, at any time. docs/own-repository.md shows what each line adds to the record.
"""

import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from trainkit import distributed
from trainkit import process_facts as facts
from trainkit.clocks import Epoch, Evaluation
from trainkit.distributed import Place
from trainkit.errors import REFUSED, Refusal, one_line
from trainkit.figures import count, figure, scalar, share_of, whole
from trainkit.parent import end_with_launcher
from trainkit.run import make_repeatable
from trainkit.script_facts import choose_device, name_of_program, plain_args
from trainkit.session import Session, opened
from trainkit.time_use import TimeUse

COUNTS = ("global_batch_size", "train_samples", "eval_samples")
"""Names that `ScriptRun.report` treats as facts of the task rather than as measurements."""
_IN_ONE_LINE = 30
_process = {"of the run": 0}


class ScriptRun(Session):
    """The run of a script in this process: clocks of epochs and evaluations, and figures of the whole run.

    All ranks must open each epoch and evaluation, because they synchronize at both ends and sum their counts. `report`
    and `evaluated` do not synchronize: one rank may call them alone, and rank 0's values count.
    """

    def __init__(self, program: str | None, device: str | torch.device | None) -> None:
        place = Place.of_process()
        name, is_of_a_family = name_of_program()
        backend = dist.get_backend() if dist.is_initialized() else None
        super().__init__(
            program or name, place, choose_device(device, place), 1, backend, is_of_a_family=is_of_a_family
        )
        distributed.use_gpu(self.device)
        self._device = device
        self._epoch: Epoch | None = None
        self._last_epoch = -1
        self._facts: dict[str, Any] = {}
        self._stated: dict[str, int] = {}  # facts that the script itself has reported
        self._seconds = {"train_seconds": 0.0, "eval_seconds": 0.0, "input_seconds": 0.0}
        self._trained = 0
        self._accuracies: list[tuple[float, int]] = []
        self._finals: dict[str, float] = {}
        self._figures: dict[str, float] = {}
        self._said: set[str] = set()
        self._ended = False

    def report(self, **values: Any) -> None:
        """Report facts and figures of the whole run; a later value replaces an earlier one of the same name.

        `global_batch_size` (samples per step of all ranks), `train_samples`, `eval_samples` (sizes of the sets) and
        `seed` are integers; `dataset` and `data_sha256` are strings. Other names are figures in SI units and end in
        their unit: `..._seconds`, `..._bytes`, `..._per_second`; accuracies are from 0 to 1. The maximum of seconds and
        bytes over all ranks counts, and rank 0's value of other figures. Figures replace those measured on the rank.
        Raises ValueError for an impossible value, TypeError for a non-number.
        """
        self._require_open()
        words = {name: str(values.pop(name)) for name in ("dataset", "data_sha256") if name in values}
        known = {name: count(name, values.pop(name)) for name in COUNTS if name in values}
        if "seed" in values:
            known["seed"] = whole("seed", values.pop("seed"))
        for name, value in values.items():
            measured = figure(name, value)
            if math.isfinite(measured):
                self._figures[name] = measured
            else:
                self._say(f"{name} is {measured} and is left out")
        self._stated |= known
        self._report_facts(known)
        if words and self.first:
            self.log.point("dataset", words.pop("dataset", None), **words)

    @contextmanager
    def epoch(self, number: int, *, epochs: int | None = None) -> Iterator[Epoch]:
        """Time a block that trains an epoch (`train_seconds`); all ranks must open it.

        Evaluations within the block, by `evaluation`, do not count. Raises RuntimeError if an epoch is already open.

        Args:
            number: the epoch's number, not negative; ValueError unless above the last epoch's number.
            epochs: total number of epochs, to estimate the remaining time.
        """
        self._require_open()
        number = count("the number of an epoch", number)
        if self._epoch:
            raise RuntimeError(f"epoch {number} begins within epoch {self._epoch.number}, which has not ended")
        if number <= self._last_epoch:
            raise ValueError(f"epoch {number} comes after epoch {self._last_epoch}: the numbers have to rise")
        self._last_epoch = number
        with self.phase("epoch", epoch_num=number, **({} if epochs is None else {"epochs": epochs})) as phase:
            progress = self.progress(number, self._facts)
            self._epoch = epoch = Epoch(  # other ranks have trained on about as many samples
                number, phase.stop_clock, lambda samples: progress(samples * self.world_size), self.time_use
            )
            try:
                yield epoch
            finally:
                self._epoch = None
            epoch.train_seconds = max(0.0, phase.stop_clock() - epoch.left_out_seconds)
            done = {"train_seconds": epoch.train_seconds, "samples": epoch.samples, "steps": epoch.steps}
            phase.metadata |= {**done, **self._add_up(epoch), **(epoch.more if self.first else {})}
        self._seconds["train_seconds"] += epoch.train_seconds
        self._seconds["input_seconds"] += epoch.input_seconds
        self._trained += epoch.all_samples
        if epoch.loss is not None:
            self._finals["final_loss"] = epoch.loss

    @contextmanager
    def evaluation(self, number: int | None = None) -> Iterator[Evaluation]:
        """Time a block that evaluates the model (`eval_seconds`); all ranks must open it.

        Each rank counts its own samples; samples that a sampler repeats to fill a batch count twice. The script sets
        the model's mode (`eval()`, `no_grad()`). `number` is the preceding epoch's, by default the last epoch's.
        """
        self._require_open()
        with self.phase("eval", **self._of_epoch(number)) as phase:
            evaluation = Evaluation()
            yield evaluation
            seconds = phase.stop_clock()
            phase.metadata["samples"] = evaluation.samples
            knows = evaluation.correct is not None
            parts = (evaluation.samples, evaluation.correct or 0, knows, evaluation.loss_sum, evaluation.loss_samples)
            samples, correct, knowing, loss_sum, loss_samples = distributed.total(*parts)
        if self._epoch:
            self._epoch.leave_out(seconds)
        evaluation.samples = int(samples)
        if loss_samples:
            evaluation.loss = loss_sum / loss_samples
        if knowing and samples and evaluation.accuracy is None:
            evaluation.accuracy = share_of(int(correct), evaluation.samples)
        self.evaluated(
            number,
            accuracy=evaluation.accuracy,
            correct=int(correct) if knowing else None,
            samples=evaluation.samples or None,
            loss=evaluation.loss,
            seconds=seconds,
            **evaluation.metrics,
        )

    def evaluated(
        self,
        number: int | None = None,
        *,
        accuracy: Any = None,
        correct: Any = None,
        samples: Any = None,
        loss: Any = None,
        seconds: float = 0.0,
        **metrics: Any,
    ) -> None:
        """Report the result of an evaluation by other code, for all ranks together; does not synchronize.

        Raises ValueError for an accuracy outside 0 to 1 or more correct samples than samples, TypeError for a
        non-number.

        Args:
            number: the preceding epoch's number, by default the last epoch's.
            accuracy: 0 to 1; by default `correct` / `samples`.
            correct: number of correct samples.
            samples: number of samples.
            loss: mean over the samples.
            seconds: duration on this rank.
            metrics: further metrics, one number each: `f1=0.9`. The last value becomes the run's figure `final_f1`.
        """
        self._require_open()
        found: dict[str, Any] = {name: scalar(name, value) for name, value in metrics.items()}
        if samples is not None:
            found["samples"] = count("the number of samples", samples)
        if correct is not None:
            found["correct"] = count("the number of correct samples", correct)
        share = None if accuracy is None else figure("accuracy", accuracy)
        if share is None and "correct" in found and found.get("samples"):
            share = share_of(found["correct"], found["samples"])
        if loss is not None:
            mean = scalar("the loss", loss)
            found |= {"loss": mean, "loss_hex": mean.hex()}
            self._finals["final_eval_loss"] = mean
        of_epoch = self._of_epoch(number)
        self._seconds["eval_seconds"] += figure("seconds", seconds)
        self._finals |= {f"final_{name}": found[name] for name in metrics}
        if share is not None and math.isfinite(share):
            self._accuracies.append((share, of_epoch.get("epoch_num", len(self._accuracies) + 1)))
        if found.get("samples"):
            self._report_facts({"eval_samples": found["samples"]} if "eval_samples" not in self._facts else {})
        if self.first:
            self.log.point("eval_accuracy", share, **of_epoch, **found)

    def require_equal_parameters(self, model: nn.Module) -> str:
        """Report and return the SHA-256 of the model's parameters; raise RuntimeError if ranks differ.

        All ranks must call this. Models whose ranks hold different parts (FSDP, tensor parallelism) always differ.
        """
        self._require_open()
        sha256 = super().require_equal_parameters(model)
        self.log.point("parameters", sha256, equal_on_all_ranks=True)
        return sha256

    def finish(self) -> None:
        """Report the totals of the run, on every rank, because the maximum of some totals counts."""
        self._find_place()
        stats = {name: seconds for name, seconds in self._seconds.items() if seconds > 0}
        if self._trained and "train_seconds" in stats:
            stats["samples_per_second"] = self._trained / stats["train_seconds"]
        if self._accuracies:
            best, of_epoch = max(self._accuracies, key=lambda accuracy: accuracy[0])
            stats |= {"final_accuracy": self._accuracies[-1][0], "best_accuracy": best, "best_epoch": of_epoch}
        stats |= {**self._finals, **self._figures}
        if not stats:
            self._say("no epoch, no evaluation and no figure was reported: the record has only the total time")
        stats |= facts.peak_memory(self.device)
        named = list(stats.items())
        for begin in range(0, len(named), _IN_ONE_LINE):
            self.log.point("tracked_stats", dict(named[begin : begin + _IN_ONE_LINE]))

    def report_stop(self, status: str, error: BaseException | None = None) -> None:
        """Report `run_stop`, the last event of this process."""
        self._ended = True
        super().report_stop(status, error)

    def _require_open(self) -> None:
        if self._ended:
            raise RuntimeError("the run has ended: nothing can be reported after the block of running()")
        self._find_place()

    def _find_place(self) -> None:
        """Update rank and world size after a process group was created late.

        Earlier lines named rank 0, so only the real rank 0 continues to report.
        """
        if self.world_size > 1 or not dist.is_initialized() or dist.get_world_size() == 1:
            return
        self.place = Place.of_process()
        self.device = choose_device(self._device, self.place)
        distributed.use_gpu(self.device)
        if not self.time_use.running:
            self.time_use = TimeUse(self.device)
        if self.rank != self.log.rank:
            self.log.fall_silent()
        self._say(
            f"a process group of {self.world_size} was created after running() had taken each process for a single one:"
            " only rank 0 reports; create the group before running(), or start the script with torchrun"
        )

    def _of_epoch(self, number: int | None) -> dict[str, int]:
        known = self._last_epoch if number is None else count("the number of an epoch", number)
        return {"epoch_num": known} if known >= 0 else {}

    def _add_up(self, epoch: Epoch) -> dict[str, Any]:
        parts = (epoch.samples, epoch.largest, epoch.loss_sum, epoch.loss_samples)
        samples, batch, loss_sum, loss_samples = distributed.total(*parts)
        alone = self.world_size > 1 and not dist.is_initialized()
        if alone:
            self._say(f"{self.world_size} processes and no process group: the ranks' counts cannot be summed")
        epoch.all_samples = 0 if alone else int(samples)
        epoch.loss = loss_sum / loss_samples if loss_samples else None
        if epoch.loss is not None and math.isnan(epoch.loss):
            self._say(f"the loss of epoch {epoch.number} is nan")
        counted = {} if alone else {"train_samples": int(samples), "global_batch_size": int(batch)}
        self._report_facts({name: value for name, value in counted.items() if value and name not in self._facts})
        if not self.first:
            return {}
        batch_size = self._stated.get("global_batch_size", int(batch))
        told: dict[str, Any] = {} if alone else {"trained_samples": int(samples), "global_batch_size": batch_size}
        return told if epoch.loss is None else {**told, "loss": epoch.loss, "loss_hex": epoch.loss.hex()}

    def _report_facts(self, known: dict[str, int]) -> None:
        self._facts |= known
        for name, value in known.items() if self.first else ():
            self.log.point(name, value)

    def _say(self, text: str) -> None:
        if self.first and text not in self._said:
            self._said.add(text)
            sys.stderr.write(f"trainkit: {one_line(text)}\n")


@contextmanager
def running(
    program: str | None = None,
    args: object = None,
    *,
    device: str | torch.device | None = None,
    repeatable: bool = False,
) -> Iterator[ScriptRun]:
    """Open the run of a script: `run_start` precedes the block, and `run_stop` follows it in any case.

    Rank and world size come from torchrun's variables (`accelerate launch`, `deepspeed` and Lightning set them too) or
    the script's process group; without either, this is the only process.

    Args:
        program: the program's name, by default the script's name as it was started.
        args: the arguments for the record: a Namespace, mapping or dataclass; by default the command line.
        device: the device of the training; by default the GPU chosen by `torch.cuda.set_device`, or the one of this
            process's local rank, or the CPU. `run.device` names the device; nothing is moved there.
        repeatable: whether to set up torch so that one seed gives one result, at the cost of speed
            (`trainkit.run.make_repeatable`).

    Raises RuntimeError if a run was opened before in this process. Invalid rank variables end the process with code 2.
    """
    if _process["of the run"] == os.getpid():
        raise RuntimeError("running() was called before in this process, and a process is one run")
    _process["of the run"] = os.getpid()
    end_with_launcher()
    try:
        run = ScriptRun(program, device)
    except Refusal as refusal:
        sys.stderr.write(f"error: {refusal.line}\n")
        raise SystemExit(REFUSED) from None
    if repeatable:
        make_repeatable(run.device, torch.get_num_threads())
    with opened(run, plain_args(args)):
        yield run
