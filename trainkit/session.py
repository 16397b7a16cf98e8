"""One process of a run, from its first event to its last; the base of `trainkit.run` and `trainkit.script`."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from trainkit import distributed
from trainkit import process_facts as facts
from trainkit.ddp_time import find_ddp
from trainkit.distributed import Place
from trainkit.errors import REFUSED, Refusal
from trainkit.event_log import EventLog, Phase
from trainkit.link_probe import probe, worth_a_probe
from trainkit.stacks import answer_where
from trainkit.time_use import EXCHANGE, LEFT_OUT, TimeUse
from trainkit.utilization import watching


class Session:
    """A process's rank, device, clock and event log.

    `device` is the first of the `devices` that the process uses. `backend` is None until chosen. `is_of_a_family` tells
    whether the program is in `experiments`, so that its code is the family's.
    """

    def __init__(
        self,
        program: str,
        place: Place,
        device: torch.device,
        devices: int = 1,
        backend: str | None = None,
        *,
        is_of_a_family: bool = True,
    ) -> None:
        self.program = program
        self.place = place
        self.device = device
        self.devices = devices
        self.backend = backend
        self.is_of_a_family = is_of_a_family
        self.log = EventLog(self.place.rank, synchronise=self.synchronise)
        self.time_use = TimeUse(device)
        self.began = time.monotonic()
        self._joined = self._probed = False

    @property
    def rank(self) -> int:
        """The rank of this process."""
        return self.place.rank

    @property
    def world_size(self) -> int:
        """Number of processes of the run."""
        return self.place.world_size

    @property
    def local_world_size(self) -> int:
        """Number of processes of the run on this node."""
        return self.place.local_world_size

    @property
    def first(self) -> bool:
        """Whether this is rank 0, which reports for all."""
        return self.place.rank == 0

    @property
    def cuda_devices(self) -> list[int]:
        """Indices of the GPUs that this process uses."""
        if self.device.type == "cpu":
            return []
        return [self.device.index + number for number in range(self.devices)]

    @contextmanager
    def phase(self, name: str, **metadata: object) -> Iterator[Phase]:
        """Time a block, with all ranks and devices synchronized at both ends.

        A phase `epoch` also reports how its seconds were spent, without the seconds of `eval` phases inside.
        """
        with self.log.phase(name, **metadata) as phase:
            if name != "epoch":
                with self.time_use.within(LEFT_OUT):
                    yield phase
                    phase.stop_clock()
                return
            self.time_use.open()
            phase.at_stop = self.time_use.close
            yield phase
            seconds = phase.metadata.get("train_seconds", phase.stop_clock())
            spent = self.time_use.result(seconds)
            phase.metadata |= spent
            if not self._probed and worth_a_probe(spent["communication_seconds"], seconds):
                self._probed = True
                self.log.point("link", **probe())

    def progress(self, epoch: int, facts: Mapping[str, int]) -> Callable[[int], None]:
        """Return a function that reports, at most once a second, the number of samples trained on by all ranks."""
        due = time.monotonic() + 1

        def on_progress(samples: int) -> None:
            nonlocal due
            if self.first and time.monotonic() >= due:
                due = time.monotonic() + 1
                total = {"train_samples": facts["train_samples"]} if "train_samples" in facts else {}
                self.log.point("progress", samples, epoch_num=epoch, **total)

        return on_progress

    def exchanging(self) -> AbstractContextManager[None]:
        """Mark a block of an epoch in which the ranks exchange data outside DDP and finish together."""
        return self.time_use.within(EXCHANGE, ends_step=True)

    def synchronise(self) -> None:
        """Wait for this process's devices, then for all ranks."""
        with self.exchanging():
            self.wait_for_devices()
            distributed.barrier()

    def wait_for_devices(self) -> None:
        """Wait until this process's GPUs have finished their work."""
        if torch.cuda.is_initialized():
            for index in self.cuda_devices:
                torch.cuda.synchronize(index)

    def join(self) -> None:
        """Join the process group (phase `init`), unless there is a group already.

        The backend is NCCL on GPUs and Gloo on CPUs unless already chosen.
        """
        if dist.is_initialized():
            return
        with self.phase("init"):
            backend = self.backend or distributed.choose_backend("auto", self.device)
            distributed.join_process_group(backend, self.place, self.device)
        self._joined = True

    def leave(self) -> None:
        """Leave the process group if `join` created it.

        All ranks wait here after their last line, since a launcher may end other processes once the first has ended.
        """
        if self._joined and dist.is_initialized():
            distributed.barrier()
            dist.destroy_process_group()

    def require_equal_parameters(self, model: nn.Module) -> str:
        """Return the SHA-256 of the model's parameters; RuntimeError if ranks differ."""
        sha256 = distributed.fingerprint(list(model.parameters()))
        distributed.require_equal("the parameters", sha256)
        return sha256

    def check(self) -> None:
        """Raise Refusal if the program or the node does not support the run; called after `run_start`."""

    def finish(self) -> None:
        """Report final figures; called only on success."""

    def report_start(self, args: Mapping[str, Any]) -> None:
        """Report `run_start`: the arguments, in JSON's types, and the facts of the process."""
        told = facts.of_process(self.device, self.program if self.is_of_a_family else None)
        place = asdict(self.place)
        del place["rank"]  # every line has the rank
        self.began = time.monotonic()  # at the event's time of day: a record compares the two clocks
        own = {"program": self.program, "args": args, **place, "devices": self.devices, "backend": self.backend}
        self.log.start("run_start", **own, **told)

    def report_stop(self, status: str, error: BaseException | None = None) -> None:
        """Report `run_stop`, the last event of this process."""
        why = {} if error is None else {"error": f"{type(error).__name__}: {error}"}
        seconds = time.monotonic() - self.began
        self.log.stop("run_stop", status=status, total_seconds=seconds, **why)


@contextmanager
def opened(session: Session, args: Mapping[str, Any]) -> Iterator[None]:
    """Report `run_start` before a block and, as the last event in any case, `run_stop` after the block."""
    answer_where()
    session.report_start(args)
    stop_looking = find_ddp(session.time_use) if session.world_size > 1 else lambda: None
    leaving: SystemExit | None = None
    gpus = session.place.local_world_size * session.devices if session.device.type == "cuda" else 0
    try:
        session.check()
        with nullcontext() if session.place.local_rank else watching(session.log, gpus):  # one process per node
            try:
                yield
            except SystemExit as ended:
                if ended.code not in (None, 0):
                    raise
                leaving = ended
            session.finish()
    except Refusal as refusal:
        session.report_stop("aborted", refusal)
        if session.place.local_rank == 0:
            sys.stderr.write(f"error: {refusal.line}\n")  # one write; `print` makes two, which may be interleaved
        distributed.wait_for_neighbours(session.place)
        raise SystemExit(REFUSED) from None
    except BaseException as error:
        session.report_stop("aborted", error)
        raise
    stop_looking()
    session.report_stop("success")
    session.leave()
    if leaving:
        raise leaving
