"""A run of the kit's own experiments in one process: its place, its clock, its event lines, and how it ends.

A program's `main` opens it, and everything in the block is between `run_start` and `run_stop`. It has the arguments
that all of them share, and it sets up torch so that one seed gives one result. For any other script there is
`trainkit.script`, which does neither.
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
    """What every program needs of the process that it runs in.

    Args:
        program: its name under `experiments`, for example `mnist.ddp`.
        args: its arguments; `device`, `threads` and, if it has one, `backend` are read here.
        devices: how many devices this one process uses.
        cpu_stands_in: whether one CPU may take the place of several devices: the results are right, the speed
            means nothing.
    """

    def __init__(self, program: str, args: Namespace, devices: int = 1, *, cpu_stands_in: bool = False) -> None:
        place = Place.from_environment()
        device = distributed.choose_device(args.device, place)
        backend = distributed.choose_backend(args.backend, device) if "backend" in args else None
        super().__init__(program, place, device, devices, backend)
        self.args = args
        self.cpu_stands_in = cpu_stands_in

    def check(self) -> None:
        """Refuse processes and devices that the program or the node cannot have."""
        asked, seen = self.place.local_world_size * self.devices, torch.cuda.device_count()
        if self.device.type == "cuda" and asked > seen:
            raise Refusal(f"{asked} GPUs were asked for on this node and {seen} are seen")
        if self.backend is None and self.world_size > 1:
            raise Refusal(f"{self.program} is one process and {self.world_size} were started")
        if self.devices > 1 and self.device.type == "cpu" and not self.cpu_stands_in:
            raise Refusal(f"{self.devices} devices were asked for and the CPU is one")


@contextmanager
def running(program: str, args: Namespace, devices: int = 1, *, cpu_stands_in: bool = False) -> Iterator[Run]:
    """Open a run; whatever happens in the block, `run_stop` is this process's last event."""
    end_with_launcher()
    run = Run(program, args, devices, cpu_stands_in=cpu_stands_in)
    make_repeatable(run.device, args.threads)
    resolved = {name: _plain(value) for name, value in vars(args).items()} | {"device": run.device.type}
    if run.backend:
        resolved["backend"] = run.backend
    with opened(run, resolved):
        yield run


def _plain(value: object) -> object:
    """Return a number that JSON lacks as the word that the command line has for it."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def make_repeatable(device: torch.device, threads: int) -> None:
    """Set up torch so that one seed gives one result, with as many CPU threads in every cell."""
    torch.set_num_threads(threads)
    keep_freed_memory()
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    if device.type == "cpu":  # on GPUs some layers have no deterministic form
        torch.use_deterministic_algorithms(mode=True)
        # It comes with a debugging aid that costs time.
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def keep_freed_memory() -> None:
    """Let a step reuse the memory of the step before it.

    glibc returns large blocks to the system as they are freed; to get them again, page by page, took a fifth of a
    training step on the CPU.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        trim_threshold, mmap_max = -1, -4  # their numbers in malloc.h
        libc.mallopt(trim_threshold, 2**30)
        libc.mallopt(mmap_max, 0)
