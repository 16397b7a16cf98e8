"""A run in one process: its place, its clock, its event lines, and how it ends.

A program's `main` opens it, and everything in the block is between `run_start` and `run_stop`::

    with running("mnist.ddp", args) as run:
        run.join()
        with run.phase("data"):
            ...
"""

import ctypes
import math
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from trainkit import distributed
from trainkit import process_facts as facts
from trainkit.distributed import Place
from trainkit.errors import REFUSED, Refusal
from trainkit.event_log import EventLog, Phase
from trainkit.parent import end_with_launcher
from trainkit.utilization import Utilization


class Run:
    """What every program needs of the process that it runs in.

    Args:
        program: its name under `experiments`, for example `mnist.ddp`.
        args: its arguments; `device`, `threads` and, if it has one, `backend` are read here.
        devices: how many devices this one process uses.
        cpu_stands_in: whether one CPU may take the place of several devices: the results are right, the speed
            means nothing.
    """

    def __init__(self, program: str, args: Namespace, devices: int = 1, *, cpu_stands_in: bool = False) -> None:
        self.program = program
        self.args = args
        self.devices = devices
        self.cpu_stands_in = cpu_stands_in
        self.place = Place.from_environment()
        self.device = distributed.choose_device(args.device, self.place)
        self.backend = None
        if "backend" in args:
            self.backend = distributed.choose_backend(args.backend, self.device)
        self.log = EventLog(self.place.rank, synchronise=self.synchronise)
        self.began = time.monotonic()

    @property
    def rank(self) -> int:
        """The process's number among all of the run."""
        return self.place.rank

    @property
    def world_size(self) -> int:
        """How many processes the run has."""
        return self.place.world_size

    @property
    def first(self) -> bool:
        """Whether this is the process that reports for all."""
        return self.place.rank == 0

    @property
    def cuda_devices(self) -> list[int]:
        """The numbers of the GPUs that this process uses."""
        if self.device.type == "cpu":
            return []
        return [self.device.index + number for number in range(self.devices)]

    def phase(self, name: str, **metadata: object) -> AbstractContextManager[Phase]:
        """Time a block: all ranks and devices are synchronised at both ends of it."""
        return self.log.phase(name, **metadata)

    def synchronise(self) -> None:
        """Wait for this process's devices, then for the other ranks."""
        self.wait_for_devices()
        distributed.barrier()

    def wait_for_devices(self) -> None:
        """Wait until this process's GPUs have finished their work."""
        if torch.cuda.is_initialized():
            for index in self.cuda_devices:
                torch.cuda.synchronize(index)

    def join(self) -> None:
        """Join the process group of the run (phase `init`)."""
        with self.phase("init"):
            backend = self.backend or distributed.choose_backend("auto", self.device)
            distributed.join_process_group(backend, self.place, self.device)

    def require_equal_parameters(self, model: nn.Module) -> str:
        """Return the SHA-256 of the model's parameters; raise if the ranks' differ."""
        sha256 = distributed.fingerprint(list(model.parameters()))
        distributed.require_equal("the parameters", sha256)
        return sha256

    def report_start(self) -> None:
        """Print `run_start`: the arguments, and what the process runs on."""
        resolved: dict[str, Any] = {name: _plain(value) for name, value in vars(self.args).items()}
        resolved["device"] = self.device.type
        if self.backend:
            resolved["backend"] = self.backend
        self.log.start(
            "run_start",
            program=self.program,
            args=resolved,
            world_size=self.place.world_size,
            local_rank=self.place.local_rank,
            local_world_size=self.place.local_world_size,
            node_rank=self.place.node_rank,
            devices=self.devices,
            backend=self.backend,
            **facts.of_process(self.device, self.program),
        )

    def report_stop(self, status: str, error: BaseException | None = None) -> None:
        """Print `run_stop`, the last event of this process."""
        why = {} if error is None else {"error": f"{type(error).__name__}: {error}"}
        seconds = time.monotonic() - self.began
        self.log.stop("run_stop", status=status, total_seconds=seconds, **why)


@contextmanager
def running(program: str, args: Namespace, devices: int = 1, *, cpu_stands_in: bool = False) -> Iterator[Run]:
    """Open a run; whatever happens in the block, `run_stop` is this process's last event."""
    end_with_launcher()
    run = Run(program, args, devices, cpu_stands_in=cpu_stands_in)
    make_repeatable(run.device, args.threads)
    run.report_start()
    try:
        require_layout(run)
        with watch_node(run):
            yield run
    except Refusal as refusal:
        run.report_stop("aborted", refusal)
        if run.place.local_rank == 0:
            sys.stderr.write(f"error: {refusal.line}\n")  # one write: `print` makes two, and they can be torn apart
        distributed.wait_for_neighbours(run.place)
        raise SystemExit(REFUSED) from None
    except BaseException as error:
        run.report_stop("aborted", error)
        raise
    # The last line comes before the last barrier: a launcher may end the others as soon as the first process is done.
    run.report_stop("success")
    if dist.is_initialized():
        distributed.barrier()
        dist.destroy_process_group()


def _plain(value: object) -> object:
    """Return a number that JSON lacks as the word that the command line has for it."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def watch_node(run: Run) -> AbstractContextManager[None]:
    """Report the node's utilization, from the first of its processes."""
    if run.place.local_rank:
        return nullcontext()
    gpus = run.place.local_world_size * run.devices if run.device.type == "cuda" else 0
    return Utilization(run.log, gpus)


def require_layout(run: Run) -> None:
    """Refuse processes and devices that the program or the node cannot have."""
    distributed.require_gpus(run.place.local_world_size * run.devices, run.device)
    if run.backend is None and run.world_size > 1:
        message = f"{run.program} is one process and {run.world_size} were started"
        raise Refusal(message)
    if run.devices > 1 and run.device.type == "cpu" and not run.cpu_stands_in:
        message = f"{run.devices} devices were asked for and the CPU is one"
        raise Refusal(message)


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
