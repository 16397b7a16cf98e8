"""What is run, and at which sizes."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Check:
    """One launch: a program below `experiments`, its arguments, and the processes that run it."""

    name: str
    program: str
    args: dict[str, Any]
    processes: int

    @property
    def words(self) -> list[str]:
        """The arguments as they stand on a command line."""
        words = []
        for key, value in self.args.items():
            option = f"--{key.replace('_', '-')}"
            words += [option] if value is True else [option, str(value)]
        return words


@dataclass(frozen=True)
class Plan:
    """The sizes of a machine's checks.

    Args:
        processes: as many as there are GPUs; each check runs as one process too.
        data_dir: holds the stand-in's sentences.
        model: the folder of the stand-in for BERT.
        mnist: whether `real` holds MNIST; the digits are taken where it does not.
        real: the project's data folder.
        minilm: a prepared data folder with real sentences and a real model, if there is one.
        small: sizes for a test on a CPU.
    """

    device: str
    processes: int
    data_dir: Path
    model: Path
    mnist: bool
    real: Path
    minilm: Path | None = None
    small: bool = False


def checks(plan: Plan) -> Iterator[Check]:
    """Yield every check, the short ones first."""
    for processes in sorted({1, plan.processes}):
        yield Check("collectives", "collectives.measure", _collectives(plan), processes)
        yield Check("MNIST", "mnist.ddp", _mnist(plan), processes)
    if plan.processes > 1 and plan.device == "cuda":
        args = _mnist(plan) | {"devices": plan.processes}
        yield Check("MNIST, DataParallel", "mnist.data_parallel", args, 1)
    yield Check("ResNet50", "resnet50.whole", _resnet(plan), 1)
    if plan.processes > 1:
        two = _resnet(plan) | {"devices": 2}
        yield Check("ResNet50, split in 2", "resnet50.split", two, 1)
        yield Check("ResNet50, pipelined", "resnet50.pipelined", two | {"micro_batches": 4}, 1)
    for processes in sorted({1, plan.processes}):
        for precision in ("fp32", "bf16"):
            args = _bert(plan) | {"precision": precision}
            yield Check(f"BERT base, {precision}", "bert.ddp", args, processes)
    if plan.minilm:
        args = _bert(plan) | {"data_dir": plan.minilm, "model": "prepared", "epochs": 3, "precision": "bf16"}
        yield Check("MiniLM, real, bf16", "bert.ddp", args | {"lr": 5e-5}, plan.processes)


def _collectives(plan: Plan) -> dict[str, Any]:
    return {"device": plan.device, "max_bytes": 2**16 if plan.small else 2**28, "rounds": 1 if plan.small else 5}


def _mnist(plan: Plan) -> dict[str, Any]:
    data = {"data_dir": plan.real} if plan.mnist else {"dataset": "digits"}
    size = {"epochs": 1 if plan.small else 5, "batch_size": 512, "model": "conv3-bn"}
    return {"device": plan.device, **data, **size}


def _resnet(plan: Plan) -> dict[str, Any]:
    size = {"batches": 2, "batch_size": 8, "image_size": 32} if plan.small else {"batches": 20}
    return {"device": plan.device, **size}


def _bert(plan: Plan) -> dict[str, Any]:
    return {"device": plan.device, "data_dir": plan.data_dir, "model": plan.model, "epochs": 1, "batch_size": 64}
