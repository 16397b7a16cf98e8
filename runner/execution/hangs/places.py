"""Find the place in the program where each rank is, from one snapshot of the rank's process."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import PurePosixPath

from runner.core.layout import Layout
from runner.records.folder import RunFolder, end_of
from runner.targets.look import OF_LIBRARIES, main_thread
from runner.targets.node_view import NodeView, RankView

BUSY = 0.3
"""A process that uses more than this share of a core computes."""
_STOPPED = "is stopped by a signal (process {0}: kill -CONT {0} lets it go on)"
_HELD = {
    "T": _STOPPED,
    "t": _STOPPED,
    "Z": "has ended, and its launcher has not noticed (process {0})",
    "D": "waits for a disk or a device, which cannot be interrupted (process {0})",
}
"""States of proc(5) in which a process cannot run, with descriptions."""
_JOINS = "waits in init_process_group"
_IN_BACKWARD = "waits in backward, where DistributedDataParallel exchanges gradients,"
_THREAD = "waits for a thread"
_EXCHANGES = {
    r"/distributed_c10d\.py (init_process_group|_?new_(process_)?group\w*|rendezvous|_store_based_barrier)$": _JOINS,
    r"/torch/distributed/\S*rendezvous": _JOINS,
    r"/distributed_c10d\.py ([a-z]\w*)$": "waits in {}",
    # Without `forward`, which also runs the model.
    r"/torch/nn/parallel/distributed\.py (?!forward|_run_ddp)": "waits in an exchange of DistributedDataParallel",
    r"/torch/autograd/\S* (_engine_run_backward|backward)$": _IN_BACKWARD,
    r"/torch/(cuda|accelerator)/\S* synchronize$": "waits on the GPU",
    r"/threading\.py (join|_wait_for_tstate_lock|_shutdown)$": _THREAD,
}
"""Functions in which a rank waits, as patterns of `file function`, with descriptions. The first match counts."""
_POINT_TO_POINT = re.compile(r"waits in (i?send|i?recv|batch_isend_irecv|(send|recv)_object_list)$")
_LAST_BYTES = 100_000
_ABORTED = "Fatal Python error: Aborted"


@dataclass(frozen=True)
class Place:
    """What a rank does. `does` completes a sentence that begins with the rank. `stack` begins with the innermost line.

    `kind` is `held` (the process cannot run), `waits` (for other ranks, or for a GPU that exchanges data by NCCL),
    `pair` (waits in a point-to-point exchange), `runs`, `unclear` (may wait for its GPU or a thread) or `unknown`.
    """

    rank: int
    node: int
    kind: str
    does: str
    stack: list[str]


def seen(views: Sequence[NodeView]) -> Iterator[tuple[int, RankView]]:
    """Yield the node and the view of each rank that has a process."""
    for view in views:
        for rank in view.seen.ranks if view.seen else ():
            yield view.node, rank


def places_of(layout: Layout, views: Sequence[NodeView], *, on_gpu: bool = False) -> list[Place]:
    """Return the place of each rank that has a process on its node, sorted by rank."""
    places = []
    for node, rank in sorted(seen(views), key=lambda one: one[1].rank):
        if rank.rank in layout.ranks_of(node):
            kind, does = _doing(rank, on_gpu=on_gpu)
            stack = [f"{file}:{line} in {function}" for file, line, function in rank.stack]
            places.append(Place(rank.rank, node, kind, f"{does} at {_where(rank)}" if stack else does, stack))
    return places


def take_printed_stacks(folder: RunFolder, layout: Layout, views: Sequence[NodeView]) -> None:
    """Read the missing stacks from the output of ranks that SIGABRT ended.

    A pod has one log for all its processes, so a stack in the log is used only if the pod has one rank.
    """
    raw = folder.raw_files(layout)
    for node, rank in seen(views):
        if not rank.stack and rank.state not in _HELD:
            agent = raw.agents.get(node) if layout.processes[node] == 1 else None
            _, aborted, dump = end_of(raw.output(rank.rank, "stderr") or agent, _LAST_BYTES).rpartition(_ABORTED)
            rank.stack = [(file, line, function) for file, line, function in main_thread(dump) if aborted]


def _doing(rank: RankView, *, on_gpu: bool) -> tuple[str, str]:
    """Return `kind` and `does` of a rank's place. A rank waits if its program has called a function of `_EXCHANGES`.

    A process that waits on its GPU keeps a core busy, as if computing. The stack does not show a wait in `loss.item()`.
    """
    if rank.state in _HELD and not (rank.state == "D" and rank.stack):
        return "held", _HELD[rank.state].format(rank.pid)
    sets = ", ".join(rank.sets)
    if not rank.stack and rank.retries:
        why = sets or "does the program set MASTER_PORT itself?"
        return "unclear", f"may be looking for the store of the group: {why}"
    if not rank.stack:
        return "unknown", "has no readable stack"
    calls = [f"{file} {function}" for file, _, function in takewhile(_is_of_library, rank.stack)]
    fits = ((words, re.search(pattern, call)) for call in calls for pattern, words in _EXCHANGES.items())
    does = next((words.format(*match.groups()) for words, match in fits if match), "")
    if does in ("", _IN_BACKWARD) and rank.busy > BUSY:
        return ("unclear", "is busy computing, or waiting on the GPU,") if on_gpu else ("runs", "computes")
    if does == _THREAD:
        return "unclear", does
    if does == _JOINS and sets:
        does = f"{does} ({sets})"
    return ("pair" if _POINT_TO_POINT.match(does) else "waits", does) if does else ("runs", "is")


def _is_of_library(frame: tuple[str, int, str]) -> bool:
    return any(part in frame[0] for part in OF_LIBRARIES)


def _where(rank: RankView) -> str:
    file, line, function = next((frame for frame in rank.stack if not _is_of_library(frame)), rank.stack[0])
    inside = f" in {function}" if function != "<module>" else ""
    return f"{'/'.join(PurePosixPath(file).parts[-2:]).lstrip('/')}:{line}{inside}"
