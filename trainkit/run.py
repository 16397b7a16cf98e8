"""A run of the kit's own experiments in one process.

A program's `main` opens the run; events of the block are reported between `run_start` and `run_stop`. Unlike
`trainkit.script`, which serves all other scripts, it sets up torch so that one seed gives one result.
"""

import ctypes
import math
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from trainkit import distributed
from trainkit.distributed import Place
from trainkit.errors import Refusal
from trainkit.parent import end_with_launcher
from trainkit.session import Session, opened


class Run(Session):
    """A process of an experiment.

    Args:
        program: the program's name under `experiments`, for example `mnist.ddp`.
        args: the program's arguments, of which `device`, `threads` and (if present) `backend` are used here.
        devices: number of devices that this process uses.
        cpu_stands_in: whether one CPU may replace several devices; results are right, but the speed is meaningless.
    """

    def __init__(self, program: str, args: Namespace, devices: int = 1, *, cpu_stands_in: bool = False) -> None:
        place = Place.from_environment()
        device = distributed.choose_device(args.device, place)
        backend = distributed.choose_backend(args.backend, device) if "backend" in args else None
        super().__init__(program, place, device, devices, backend)
        self.args = args
        self.cpu_stands_in = cpu_stands_in

    def check(self) -> None:
        """Raise Refusal if the program or the node does not support so many processes or devices."""
        asked, seen = self.place.local_world_size * self.devices, torch.cuda.device_count()
        if self.device.type == "cuda" and asked > seen:
            raise Refusal(f"{asked} GPUs were asked for on this node and {seen} are seen")
        if self.backend is None and self.world_size > 1:
            raise Refusal(f"{self.program} runs in a single process, and {self.world_size} were started")
        if self.devices > 1 and self.device.type == "cpu" and not self.cpu_stands_in:
            raise Refusal(f"{self.devices} devices were asked for, and the CPU is only one")


@contextmanager
def running(program: str, args: Namespace, devices: int = 1, *, cpu_stands_in: bool = False) -> Iterator[Run]:
    """Open a run; `run_stop` is this process's last event in any case."""
    end_with_launcher()
    run = Run(program, args, devices, cpu_stands_in=cpu_stands_in)
    make_repeatable(run.device, args.threads)
    resolved = {name: _plain(value) for name, value in vars(args).items()} | {"device": run.device.type}
    if run.backend:
        resolved["backend"] = run.backend
    with opened(run, resolved):
        yield run


def _plain(value: object) -> object:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def make_repeatable(device: torch.device, threads: int) -> None:
    """Set up torch so that one seed gives one result, with a fixed number of CPU threads."""
    torch.set_num_threads(threads)
    keep_freed_memory()
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    if device.type == "cpu":  # some layers have no deterministic GPU kernel
        torch.use_deterministic_algorithms(mode=True)
        # Deterministic mode enables this debugging aid, which costs time.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def keep_freed_memory() -> None:
    """Keep freed memory in the process, so that each step reuses it.

    glibc returns large freed blocks to the system; getting them back page by page took a fifth of a CPU training step.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        trim_threshold, mmap_max = -1, -4  # M_TRIM_THRESHOLD and M_MMAP_MAX of malloc.h
        libc.mallopt(trim_threshold, 2**30)
        libc.mallopt(mmap_max, 0)
