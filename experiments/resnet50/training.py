"""Data, training loop and trace of the ResNet50 programs."""

import copy
from argparse import Namespace
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss, one_hot
from torch.optim import SGD

from experiments.resnet50.model import NUM_CLASSES
from trainkit import distributed
from trainkit import process_facts as facts
from trainkit import sharding as shards
from trainkit.flops import Work
from trainkit.run import Run

Forward = Callable[[Tensor], Tensor]
"""From images [N, 3, H, W] on the first device to outputs [N, 1000] on the last."""
TRACED = {"wait": 1, "warmup": 1, "active": 2}
"""Batches per stage of the profiler's schedule, as in `collectives-tutorial`: the last two are traced."""


def devices_of(run: Run) -> list[torch.device]:
    """Return the devices of this process; on a CPU, that CPU repeated."""
    if run.device.type == "cpu":
        return [run.device] * run.devices
    return [torch.device("cuda", index) for index in run.cuda_devices]


def noise(args: Namespace, run: Run) -> tuple[list[Tensor], Tensor]:
    """Return random batches [N, 3, H, W] on the first device, and one-hot labels [N, 1000] for all of them."""
    shape = (args.batch_size, 3, args.image_size, args.image_size)
    images = [
        torch.randn(shape, generator=shards.generator(args.seed, "images", number)) for number in range(args.batches)
    ]
    classes = torch.randint(NUM_CLASSES, (args.batch_size,), generator=shards.generator(args.seed, "labels"))
    run.log.point("seed", args.seed)
    run.log.point("global_batch_size", args.batch_size)
    run.log.point("train_samples", args.batch_size * args.batches)
    run.log.point("dataset", "noise", data_sha256=distributed.fingerprint([*images, classes]))
    return [batch.to(run.device) for batch in images], one_hot(classes, NUM_CLASSES).float()


def train(run: Run, args: Namespace, model: nn.Module, forward: Forward) -> None:
    """Warm up, train all batches inside the clock, report the result, then trace with `--profile`."""
    work = Work(run)
    work.measure_peak(torch.float32, args.peak_milliseconds / 1000)
    with run.phase("data"):
        batches, labels = noise(args, run)
        labels = labels.to(devices_of(run)[-1])
    parts = [len(part) for part in torch.arange(args.batch_size).tensor_split(args.micro_batches)]
    # BatchNorm normalises each micro-batch by itself, so losses agree only for equal micro-batches.
    run.log.point("micro_batches", args.micro_batches, samples=parts, batch_norm="statistics of each micro-batch")
    optimizer = SGD(model.parameters(), lr=args.lr)

    def step(images: Tensor) -> Tensor:
        loss = mse_loss(forward(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    with run.phase("warmup"):
        before = copy.deepcopy(model.state_dict())
        for number in range(args.warmup_batches):
            with nullcontext() if number else work.counted(args.batch_size):
                step(batches[number % len(batches)])
        model.load_state_dict(before)
    with run.phase("epoch", epoch_num=1, epochs=1) as phase:
        losses = [step(images) for images in batches]
        seconds = phase.stop_clock()
        values = [float(loss) for loss in losses]
        mean = sum(values) / len(values)
        samples = args.batch_size * args.batches
        phase.metadata |= {"train_seconds": seconds, "samples": samples, "steps": args.batches}
        phase.metadata |= {"trained_samples": samples, "loss": mean, "loss_hex": mean.hex(), "lr": args.lr}
    for number, loss in enumerate(values):
        run.log.point("batch_loss", loss, batch=number, loss_hex=loss.hex())
    run.log.point("parameters", distributed.fingerprint(list(model.parameters())))
    stats = {"train_seconds": seconds, "samples_per_second": samples / seconds, "final_loss": values[-1]}
    run.log.point("tracked_stats", stats | work.rates(samples, seconds) | peak_memory(run))
    if args.profile:
        trace(run, step, batches, Path(args.artifacts))


def peak_memory(run: Run) -> dict[str, int]:
    """Return the peak memory in bytes: `peak_bytes` of the process, `device_peak_bytes` of its fullest GPU."""
    each = [facts.peak_memory(device) for device in devices_of(run)]
    return {name: max(peaks[name] for peaks in each) for name in each[0]}


def trace(run: Run, step: Callable[[Tensor], Tensor], batches: list[Tensor], folder: Path) -> None:
    """Train four more batches under the profiler, and write a TensorBoard trace to `folder`."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if run.device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    folder.mkdir(parents=True, exist_ok=True)
    known = set(folder.iterdir())
    with (
        run.phase("profile"),
        torch.profiler.profile(
            activities=activities,
            schedule=torch.profiler.schedule(**TRACED),
            on_trace_ready=torch.profiler.tensorboard_trace_handler(str(folder)),
            record_shapes=True,
            profile_memory=True,
            with_stack=True,
        ) as profiler,
    ):
        for number in range(sum(TRACED.values())):
            step(batches[number % len(batches)])
            profiler.step()
    for path in sorted(set(folder.iterdir()) - known):
        run.log.point("artifact", path.name, bytes=path.stat().st_size)
