"""Where a rank is: read from its process's state, its sockets and its stack, as it was seen or printed."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from runner.core.layout import Layout
from runner.core.network import is_loopback
from runner.core.text import listed
from runner.records.folder import RunFolder
from runner.records.raw_files import end_of
from runner.targets.look import OF_LIBRARIES, main_thread
from runner.targets.node_view import NodeView

Frame = tuple[str, int, str]
BUSY = 0.3
"""A process that uses more of a core than this is said to compute."""
_STATES = {"T": "stopped", "t": "stopped", "Z": "zombie", "D": "disk"}
"""States of proc(5) in which a process answers nobody."""
_C10D = "/torch/distributed/distributed_c10d.py"
_DDP = "/torch/nn/parallel/distributed.py"
_OF_GPU = ("/torch/cuda/__init__.py", "/torch/cuda/streams.py", "/torch/accelerator/__init__.py")
_POINT_TO_POINT = ("send", "recv", "isend", "irecv", "batch_isend_irecv", "send_object_list", "recv_object_list")
_JOINS = ("join", "_wait_for_tstate_lock", "_shutdown")
_JOINING = ("init_process_group", "new_group", "_new_process_group_helper", "rendezvous", "_store_based_barrier")
_BACKWARD = ("_engine_run_backward", "backward")
_STORE = "_create_c10d_store"
_LAST_BYTES = 100_000
_ABORTED = "Fatal Python error: Aborted"


@dataclass(frozen=True)
class Position:
    """One rank at one moment: what it does, and its main thread's stack, the innermost frame first.

    Its kind is `stopped`, `disk`, `zombie`, `joining`, `collective`, `pair` (point to point), `backward`, `gpu` (it
    waits for it), `busy`, `spinning` (busy, and that may be a wait for its GPU), `elsewhere`, or `unknown` if there is
    no stack. The operation is named as `all_reduce`, and the line of the program as `mnist/ddp.py:57 in train`.
    """

    rank: int
    node: int
    kind: str
    name: str = ""
    where: str = ""
    pid: int = 0
    stack: tuple[Frame, ...] = ()
    is_busy: bool = False
    main: str = ""
    """Where its main thread waits, if the stack is that of another thread."""

    @property
    def waits_for_others(self) -> bool:
        """Whether it waits in an exchange with other ranks, or on its GPU, where NCCL exchanges."""
        return self.kind in ("collective", "pair", "backward", "joining", "gpu")

    def words(self) -> str:
        """Return where it is, in words to stand after the rank's name."""
        at = f" at {self.where}" if self.where else ""
        at += f", in a thread that its main thread waits for at {self.main}" if self.main else ""
        return {
            "stopped": f"is stopped by a signal (process {self.pid}: kill -CONT {self.pid} lets it go on){at}",
            "disk": f"waits for a disk or a device, which cannot be interrupted (process {self.pid}){at}",
            "zombie": f"has ended, and its launcher has not noticed (process {self.pid})",
            **dict.fromkeys(("joining", "collective", "pair"), f"waits in {self.name}{at}"),
            "backward": f"waits in backward, where DistributedDataParallel exchanges gradients,{at}",
            "gpu": f"waits on the GPU{at}",
            "busy": f"computes{at}",
            "spinning": f"is busy computing, or waiting on the GPU,{at}",
            "elsewhere": f"waits for {self.name}{at}" if self.name else f"is{at}",
            "unknown": "cannot be asked where it is",
        }[self.kind]


def positions_of(layout: Layout, views: Sequence[NodeView], *, on_gpu: bool = False) -> list[Position]:
    """Return where each rank is whose process was seen."""
    found = {}
    for view in views:
        for rank in view.seen.ranks if view.seen else []:
            if not 0 <= rank.rank < layout.world_size or layout.node_of(rank.rank) != view.node:
                continue
            stack, is_busy = tuple(rank.stack), rank.busy > BUSY
            if rank.state in _STATES and not (rank.state == "D" and stack):
                kind, name = _STATES[rank.state], ""
            else:
                kind, name = _kind(stack, is_busy=is_busy, on_gpu=on_gpu)
            seen = Position(rank.rank, view.node, kind, name, "", rank.pid, is_busy=is_busy)
            found[rank.rank] = _placed(seen, stack)
    return [found[rank] for rank in sorted(found)]


def with_stack(position: Position, stack: tuple[Frame, ...], *, on_gpu: bool) -> Position:
    """Return a position that was unknown, with the stack that the rank printed when it was ended."""
    kind, name = _kind(stack, is_busy=position.is_busy, on_gpu=on_gpu)
    return _placed(replace(position, kind=kind, name=name), stack)


def _placed(position: Position, stack: tuple[Frame, ...]) -> Position:
    """Return a position with its stack, and where it is in the program; that of a thread has the main one below it."""
    ends = [place for place, (file, _, function) in enumerate(stack, 1) if function == "_bootstrap"]
    own, main = (stack[: ends[0]], stack[ends[0] :]) if ends else (stack, ())
    return replace(position, stack=stack, where=_where(own), main=_where(main))


def of_connections(views: Sequence[NodeView]) -> Iterator[str]:
    """Yield which ranks wait for an answer, and which listen where only their own machine comes."""
    machines = {view.seen.host for view in views if view.seen}
    for view in views:
        for rank in view.seen.ranks if view.seen else []:
            name = f"rank {rank.rank} (node {view.node})"
            if rank.connecting:
                far = listed(rank.connecting)
                yield f"{name} gets no answer from {far}: a firewall drops it, or the interface is the wrong one"
            own = [address for address in rank.listening if is_loopback(address.rpartition(":")[0])]
            if len(machines) > 1 and own and len(own) == len(rank.listening):
                yield (
                    f"{name} listens at {own[0]}, where no other node comes: "
                    "set GLOO_SOCKET_IFNAME to the interface that reaches the others (runner doctor names it)"
                )


def astray(views: Sequence[NodeView]) -> Iterator[str]:
    """Yield which ranks look for each other elsewhere than torchrun says, and what sets that."""
    alike: dict[tuple[str, str], list[int]] = defaultdict(list)
    for rank in (rank for view in views if view.seen for rank in view.seen.ranks if rank.sets):
        what = "joins", f"a group of {rank.size}"
        if rank.address:
            if not rank.retries and not any(frame[2] == _STORE for frame in rank.stack):
                continue
            what = "connects", f"to {rank.address}{', where nothing listens' * rank.silent}"
        alike[what[0], f"{what[1]}: {listed(rank.sets)}"].append(rank.rank)
    for (verb, words), ranks in alike.items():
        who = f"rank {ranks[0]} {verb}" if len(ranks) == 1 else f"ranks {listed(ranks)} {verb[:-1]}"
        yield f"{who} {words} over torchrun's; leave it out or use setdefault"


def printed_stack(folder: RunFolder, layout: Layout, rank: int) -> tuple[Frame, ...]:
    """Return the main thread's frames, the innermost first, as a rank printed them when SIGABRT ended it; else none.

    A pod has one log for all of its processes: there the stack is that of a node's only rank.
    """
    raw = folder.raw_files(layout)
    node = layout.node_of(rank)
    path = raw.output(rank, "stderr") or (raw.agents.get(node) if layout.processes[node] == 1 else None)
    _, found, dump = end_of(path, _LAST_BYTES).rpartition(_ABORTED)
    return tuple((file, line, function) for file, line, function in main_thread(dump)) if found else ()


def _kind(stack: tuple[Frame, ...], *, is_busy: bool, on_gpu: bool) -> tuple[str, str]:
    """Tell a rank that waits, in the innermost of torch's exchanges, from one that computes.

    A wait on the GPU keeps a core busy, and that of `loss.item()` has no line of its own.
    """
    if not stack:
        return "unknown", ""
    exchanges = (found for file, _, function in stack if (found := _operation(file, function)))
    waits = "/threading.py" in stack[0][0] and stack[0][2] in _JOINS
    kind, name = next(exchanges, ("elsewhere", "a thread" if waits else ""))
    if kind in ("backward", "elsewhere") and is_busy:
        return ("spinning" if on_gpu else "busy"), ""
    return kind, name


def _operation(file: str, function: str) -> tuple[str, str] | None:
    """Name the exchange that a function of torch is."""
    found = None
    if (file.endswith(_C10D) and function in _JOINING) or ("/torch/distributed/" in file and "rendezvous" in file):
        found = "joining", "init_process_group"
    elif file.endswith(_C10D) and not function.startswith("_"):
        found = "pair" if function in _POINT_TO_POINT else "collective", function
    elif file.endswith(_DDP):
        found = "collective", "an exchange of DistributedDataParallel"
    elif "/torch/autograd/" in file and function in _BACKWARD:
        found = "backward", ""
    elif file.endswith(_OF_GPU) and function == "synchronize":
        found = "gpu", ""
    return found


def _where(stack: tuple[Frame, ...]) -> str:
    """Name the innermost line of the program itself, by the last two parts of its path."""
    if not stack:
        return ""
    own = [frame for frame in stack if not any(part in frame[0] for part in OF_LIBRARIES)]
    file, line, function = (own or list(stack))[0]
    inside = f" in {function}" if function != "<module>" else ""
    return f"{'/'.join(PurePosixPath(file).parts[-2:]).lstrip('/')}:{line}{inside}"
