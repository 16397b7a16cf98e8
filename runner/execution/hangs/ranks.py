"""What is known of each rank: what was heard of it, and where it is, from its process's state and its stack."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from runner.core.layout import Layout
from runner.core.values import whole
from runner.logs.mlperf import OBSERVED
from runner.records.events import Event
from runner.records.folder import RunFolder, end_of
from runner.targets.base import Line
from runner.targets.look import OF_LIBRARIES, main_thread
from runner.targets.node_view import NodeView, RankView

Frame = tuple[str, int, str]
BUSY = 0.3
"""A process that uses more of a core than this computes."""
_OF_THE_NODE = "load"
"""The event of a separate thread, which goes on while the training hangs."""
_LONGEST_EPOCH = 1_000_000_000
_STOPPED = "is stopped by a signal (process {0}: kill -CONT {0} lets it go on)"
_HELD = {
    "T": _STOPPED,
    "t": _STOPPED,
    "Z": "has ended, and its launcher has not noticed (process {0})",
    "D": "waits for a disk or a device, which cannot be interrupted (process {0})",
}
"""States of proc(5) in which a process answers nobody."""
_C10D = "/torch/distributed/distributed_c10d.py"
_DDP = "/torch/nn/parallel/distributed.py"
_OF_GPU = ("/torch/cuda/__init__.py", "/torch/cuda/streams.py", "/torch/accelerator/__init__.py")
_POINT_TO_POINT = ("send", "recv", "isend", "irecv", "batch_isend_irecv", "send_object_list", "recv_object_list")
_JOINING = ("init_process_group", "new_group", "_new_process_group_helper", "rendezvous", "_store_based_barrier")
_JOINS_THREAD = ("join", "_wait_for_tstate_lock", "_shutdown")
_IN_BACKWARD = "waits in backward, where DistributedDataParallel exchanges gradients,"
_LAST_BYTES = 100_000
_ABORTED = "Fatal Python error: Aborted"


@dataclass
class OfRank:
    """What was heard of one rank: when, its last event, and the epoch."""

    when: float
    event: str = ""
    epoch: int | None = None

    def words(self) -> str:
        """Name the last event, for example `epoch_start 2`."""
        return f"{self.event} {self.epoch}" if self.epoch is not None else self.event


@dataclass
class Heard:
    """What was heard of all ranks of the nodes that are followed, in seconds of a monotonic clock."""

    layout: Layout
    began: float
    followed: tuple[int, ...]
    ranks: dict[int, OfRank] = field(default_factory=dict)
    nodes: set[int] = field(default_factory=set)
    joining: set[int] = field(default_factory=set)
    """Ranks that began to join the process group."""
    joined: set[int] = field(default_factory=set)
    longest: float = 0.0
    """The longest silence of all ranks that ended."""

    def __post_init__(self) -> None:
        self.last = self.waiting_since = self.began
        """When the waiting for the others began: with the launch, or as the first rank began to join."""
        self.own = [rank for node in self.followed for rank in self.layout.ranks_of(node)]

    def take(self, line: Line, event: Event | None, now: float) -> None:
        """Take in a line that a process printed; an event begins with a newline, so that there are empty lines."""
        if event.key == _OF_THE_NODE if event is not None else not line.text.strip():
            return
        self.longest, self.last = max(self.longest, now - self.last), now
        self.nodes.add(line.node)
        said = whole(event.metadata.get("rank"), 0, self.layout.world_size - 1) if event else None
        rank = self.layout.first_rank(line.node) + line.local_rank if said is None else said
        of_rank = self.ranks.setdefault(rank, OfRank(now))
        of_rank.when = now
        if event is not None and event.key != OBSERVED:
            of_rank.event = event.key
            epoch = whole(event.metadata.get("epoch_num"), 0, _LONGEST_EPOCH)
            of_rank.epoch = of_rank.epoch if epoch is None else epoch
            if event.key == "init_start":
                self.waiting_since = self.waiting_since if self.joining else now
                self.joining.add(rank)
            elif event.key == "init_stop":
                self.joined.add(rank)


@dataclass(frozen=True)
class Position:
    """One rank at one moment: what it does, in words that follow its name, and its stack, the innermost frame first.

    Its kind is `held` (its process answers nobody), `waits` (in an exchange with other ranks, or on its GPU, where NCCL
    exchanges), `pair` (it waits point to point), `runs`, `unclear` (it may wait for its GPU or for a thread), or
    `unknown`.
    """

    rank: int
    node: int
    kind: str
    does: str
    stack: tuple[Frame, ...] = ()

    @property
    def waits_for_others(self) -> bool:
        """Whether it waits in an exchange."""
        return self.kind in ("waits", "pair")


def positions_of(layout: Layout, views: Sequence[NodeView], *, on_gpu: bool = False) -> list[Position]:
    """Return where each rank is whose process was seen."""
    found = {
        rank.rank: _position(rank, node, on_gpu=on_gpu)
        for node, rank in seen(views)
        if 0 <= rank.rank < layout.world_size and layout.node_of(rank.rank) == node
    }
    return [found[rank] for rank in sorted(found)]


def seen(views: Sequence[NodeView]) -> list[tuple[int, RankView]]:
    """Return the ranks whose processes were seen, each with its node."""
    return [(view.node, rank) for view in views if view.seen for rank in view.seen.ranks]


def take_printed_stacks(folder: RunFolder, layout: Layout, views: Sequence[NodeView]) -> None:
    """Give ranks that could not be asked the stacks that they printed when SIGABRT ended them.

    A pod has one log for all of its processes: there the stack is that of a node's only rank.
    """
    raw = folder.raw_files(layout)
    for node, rank in seen(views):
        if not rank.stack and rank.state not in _HELD:
            agent = raw.agents.get(node) if layout.processes[node] == 1 else None
            _, found, dump = end_of(raw.output(rank.rank, "stderr") or agent, _LAST_BYTES).rpartition(_ABORTED)
            rank.stack = [(file, line, function) for file, line, function in main_thread(dump) if found]


def _position(rank: RankView, node: int, *, on_gpu: bool) -> Position:
    """Tell a rank that waits, in the innermost of torch's exchanges, from one that computes.

    A wait on the GPU keeps a core busy, and that of `loss.item()` has no line of its own.
    """
    stack = tuple(rank.stack)
    if rank.state in _HELD and not (rank.state == "D" and stack):
        kind, does = "held", _HELD[rank.state].format(rank.pid)
    elif not stack:
        kind, does = "unknown", "cannot be asked where it is"
        if rank.retries:
            kind, does = (
                "unclear",
                "may be looking for the store of the group: does the program set MASTER_PORT itself?",
            )
    else:
        kind, does = next((found for file, _, name in stack if (found := _exchange(file, name))), ("runs", "is"))
        if (kind == "runs" or does == _IN_BACKWARD) and rank.busy > BUSY:
            busy = "runs", "computes"
            kind, does = ("unclear", "is busy computing, or waiting on the GPU,") if on_gpu else busy
        elif kind == "runs" and "/threading.py" in stack[0][0] and stack[0][2] in _JOINS_THREAD:
            kind, does = "unclear", "waits for a thread"
    return Position(rank.rank, node, kind, f"{does} at {_where(stack)}" if stack else does, stack)


def _exchange(file: str, function: str) -> tuple[str, str] | None:
    """Return the kind and the words of the exchange that a function of torch is."""
    found = None
    if (file.endswith(_C10D) and function in _JOINING) or ("/torch/distributed/" in file and "rendezvous" in file):
        found = "waits", "waits in init_process_group"
    elif file.endswith(_C10D) and not function.startswith("_"):
        found = "pair" if function in _POINT_TO_POINT else "waits", f"waits in {function}"
    elif file.endswith(_DDP):
        found = "waits", "waits in an exchange of DistributedDataParallel"
    elif "/torch/autograd/" in file and function in ("_engine_run_backward", "backward"):
        found = "waits", _IN_BACKWARD
    elif file.endswith(_OF_GPU) and function == "synchronize":
        found = "waits", "waits on the GPU"
    return found


def _where(stack: tuple[Frame, ...]) -> str:
    """Name the innermost line of the program itself by the last two parts of its path: `mnist/ddp.py:57 in train`."""
    own = [frame for frame in stack if not any(part in frame[0] for part in OF_LIBRARIES)]
    file, line, function = (own or stack)[0]
    inside = f" in {function}" if function != "<module>" else ""
    return f"{'/'.join(PurePosixPath(file).parts[-2:]).lstrip('/')}:{line}{inside}"
