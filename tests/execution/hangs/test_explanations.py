"""Explanations of nodes that have not joined and of ranks that wait, made from views of their processes."""

import os
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest

from runner.core import clock
from runner.core.layout import Layout
from runner.execution.hangs import hang_watch
from runner.execution.hangs.diagnosis import STARTING, Heard, of_rendezvous, of_silence
from runner.execution.hangs.hang_watch import Watch
from runner.records.events import Event
from runner.records.folder import RunFolder
from runner.records.schema import Stuck
from runner.targets import look
from runner.targets.base import Handle, Line, Note
from runner.targets.node_view import AgentView, NodeView, RankView, Seen, Told
from tests.support.held_clock import HeldClock
from tests.support.records import make_launch

TWO = Layout.parse("2x1")
TORCH = "/usr/lib/python3/site-packages/torch"
Stack = list[tuple[str, int, str]]


def calls(file: str, function: str, line: int = 57) -> Stack:
    inner = (f"{TORCH}/distributed/c10d_logger.py", 75, "wrapper")
    return [(f"{TORCH}/{file}.py", 1, function), inner, ("/home/me/train.py", line, "train")]


C10D = "distributed/distributed_c10d"
ALL_REDUCE, BARRIER, SEND, RECEIVE = (calls(C10D, name) for name in ("all_reduce", "barrier", "send", "recv"))
JOINS = calls("distributed/rendezvous", "_create_c10d_store")
BACKWARD = calls("autograd/graph", "_engine_run_backward")
IN_DDP = calls("nn/parallel/distributed", "_sync_buffers")
IN_FORWARD = [("/home/me/model.py", 7, "forward"), *calls("nn/parallel/distributed", "forward")]
ON_GPU = calls("cuda/streams", "synchronize", 60)
ITEM = [("/home/me/train.py", 59, "train")]
LOADER = [("/usr/lib/python3/queue.py", 171, "get"), ("/home/me/data.py", 12, "fetch"), *ITEM]


def heard(layout: Layout = TWO, *events: tuple[int, str]) -> Heard:
    everything = Heard(layout, 0.0)
    for rank, key in events:
        node = layout.node_of(rank)
        line = Line(node, rank - layout.first_rank(node), b"")
        everything.take(line, Event(0, key, metadata={"rank": rank}), 1.0)
    return everything


def agent(node: int, state: str = "S", **fields: Any) -> NodeView:
    told = Told(str(node), fields.pop("nodes", "2"), fields.pop("master", "node0"), "29500")
    joined = {"listening": False, "connected": False, **fields}
    return NodeView(node, Seen(f"node{node}", [AgentView(7, state, told, **joined)], []))


def rank(number: int, stack: list[Any], *, state: str = "S", busy: float = 0.0, **fields: Any) -> NodeView:
    """Return the view of a rank in layout 2x1."""
    seen = RankView(number, 70 + number, state, busy, stack, **fields)
    return NodeView(number, Seen(f"node{number}", [], [seen]))


HOST = agent(0, listening=True)
AT = {"addresses": ["10.0.0.1"]}
ITSELF = {"master": "localhost", "addresses": ["127.0.0.1"], "trouble": look.REFUSED}
MISSING = {
    "kill -CONT 7 lets it go on": agent(1, "T"),
    "is starting": agent(1, **AT),
    "has nnodes=1, not 2": agent(1, listening=True, nodes="1"),
    "node0:29500 (10.0.0.1): nothing listens there": agent(1, **AT, trouble=look.REFUSED),
    "10.0.0.1:29500: No route to host": agent(1, master="10.0.0.1", **AT, trouble="No route to host"),
    "is itself (127.0.0.1)": agent(1, **ITSELF),
    "its container is paused": NodeView(1, idle="its container is paused"),
}


@pytest.mark.parametrize(("why", "view"), MISSING.items(), ids=str)
def test_a_node_that_has_not_joined_is_named_with_the_reason(why: str, view: NodeView) -> None:
    events = [(1, "epoch_start")] if "nnodes" in why else []  # such a node may train alone
    missing, joined = of_rendezvous(heard(TWO, *events), [HOST, view])
    assert missing.startswith("node 1 has not joined: ")
    assert why in missing
    assert joined == "node 0 has joined"


def test_nodes_of_one_machine_that_find_nobody_there_yet_are_starting() -> None:
    views = [agent(node, **ITSELF) for node in (0, 1)]
    assert "itself" in of_rendezvous(heard(), views)[0]
    for view in views:
        assert view.seen
        view.seen.host = "vm"
    assert of_rendezvous(heard(), views) == [f"node 0, 1 has not joined: {STARTING}"]


DIFFERENT = "the ranks wait in different operations: rank 0 (node 0) waits in "
STORE = "rank 0, 1 (node 0, 1) may be looking for the store of the group: "
JOINING = "rank 0, 1 (node 0, 1) waits in init_process_group"
LOOPBACK = {"listening": ["127.0.1.1:4000"]}
STUCK: list[tuple[NodeView, NodeView, list[str], int | None]] = [
    (rank(0, BACKWARD), rank(1, [], state="T"), ["rank 1 (node 1) is stopped", "rank 0 (node 0) waits in backward"], 1),
    (rank(0, BACKWARD), rank(1, [], state="Z"), ["rank 1 (node 1) has ended", "rank 0"], 1),
    (
        rank(0, ALL_REDUCE),
        rank(1, ALL_REDUCE, connecting=["10.0.0.1:4000"]),
        ["rank 0, 1 (node 0, 1) waits in all_reduce at me/train.py:57 in train", "rank 1 (node 1) gets no answer"],
        None,
    ),
    (rank(0, JOINS, **LOOPBACK), rank(1, JOINS), ["rank 0, 1", "rank 0 (node 0) listens at 127.0.1.1:4000"], None),
    *((rank(0, ALL_REDUCE), rank(1, other), [DIFFERENT], None) for other in (BARRIER, BACKWARD, IN_DDP)),
    (rank(0, SEND), rank(1, RECEIVE), ["rank 0 (node 0) waits in send", "rank 1 (node 1) waits in recv"], None),
    (rank(0, BARRIER), rank(1, ITEM, busy=1.0), ["rank 1 (node 1) computes at", "rank 0 (node 0) waits in barrier"], 1),
    (rank(0, BACKWARD), rank(1, IN_FORWARD), ["rank 1 (node 1) is at me/model.py:7 in forward", "rank 0"], 1),
    (rank(0, []), NodeView(1, Seen("node1", [], [])), ["rank 1 (node 1) has no process", "rank 0: the stack"], None),
    (rank(0, [], retries=True), rank(1, ALL_REDUCE), ["rank 1 (node 1) waits in all_reduce at", "rank 0"], None),
    (*(rank(n, [], retries=True, sets=["t.py:5 sets A"]) for n in (0, 1)), [f"{STORE}t.py:5 sets A"], None),
    (*(rank(n, [], retries=True) for n in (0, 1)), [f"{STORE}does the program set"], None),
    (*(rank(n, JOINS, sets=["t.py:3 sets A"]) for n in (0, 1)), [f"{JOINING} (t.py:3 sets A) at"], None),
]
"""Views of two ranks, the beginnings of the sentences about them, and the rank that the other one waits for."""
BUSY = ["rank 0 (node 0) waits in barrier", "rank 1 (node 1) is busy"]
# A wait on the GPU keeps a core busy.
STUCK_ON_GPUS = [
    (rank(0, ON_GPU, busy=1.0), rank(1, LOADER), ["rank 1 (node 1) is at", "rank 0 (node 0) waits on the GPU at"], 1),
    (rank(0, BARRIER), rank(1, ON_GPU), [DIFFERENT], None),
    *((rank(0, BARRIER), rank(1, busy, busy=1.0), BUSY, None) for busy in (ITEM, BACKWARD)),
]


def diagnosed(*views: NodeView, on_gpu: bool = False) -> Stuck:
    return of_silence(heard(), views, 1.0, on_gpu=on_gpu)


@pytest.mark.parametrize("on_gpu", [False, True])
def test_the_rank_that_the_others_wait_for_is_named_and_no_other(on_gpu: bool) -> None:
    for *views, begin, late in STUCK_ON_GPUS if on_gpu else STUCK:
        stuck = diagnosed(*views, on_gpu=on_gpu)
        assert len(stuck.says) >= len(begin), stuck
        assert all(map(str.startswith, stuck.says, begin)), stuck
        assert stuck.rank == late, stuck
        assert late is not None or not any(" for rank " in words for words in stuck.says), stuck


def test_a_rank_that_ended_well_while_another_waits_is_said_to_have_and_one_with_a_title_is_not() -> None:
    both = Layout.parse("1x2")
    for nameless, words in ((0, "has ended by itself"), (1, "titles")):
        seen = Seen("node0", agent(0).seen.agents, [RankView(1, 71, "S", 0.0, list(ALL_REDUCE))], nameless)
        (first, *_) = of_silence(heard(both, (0, "run_start")), [NodeView(0, seen)], 1.0).says
        assert words in first
        assert first.startswith("rank 0 (node 0) ")


THREAD = """
Thread 0x1 (most recent call first):
  File "/home/me/train.py", line 30 in work
  File "/usr/lib/python3.11/threading.py", line 982 in run
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Thread 0x2 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 1139 in _wait_for_tstate_lock
  File "/usr/lib/python3.11/threading.py", line 1119 in join
  File "/home/me/train.py", line 60 in <module>
"""


def test_a_process_that_waits_for_a_thread_is_where_it_waits_and_nobody_waits_for_it() -> None:
    stuck = diagnosed(rank(0, look.main_thread(THREAD)), rank(1, ALL_REDUCE))
    assert stuck.ranks[0].words == "waits for a thread at me/train.py:60"
    assert stuck.rank is None


SCRIPT = """
import os
def setup(port):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "12355"
    os.environ["RANK"] = str(port)
    if "WORLD_SIZE" not in os.environ:
        os.environ["WORLD_SIZE"] = "9"
"""


def test_lines_that_override_what_torchrun_has_set_are_named(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    told = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500", "WORLD_SIZE": "2"}
    words = ["python", "-u", str(tmp_path / "train.py")]
    process = {"pid": os.getpid(), "command": words, "environment": told, "stack": [], "retries": True}
    assert look._sets(process) == ["train.py:5 sets MASTER_PORT"]
    assert look._sets({**process, "retries": False}) == []


class Silent(Handle):
    """A run without output, whose nodes have the given views."""

    def __init__(self, *views: NodeView) -> None:
        self.views, self.aborts = list(views), []

    def lines(self) -> Iterator[Line | Note | None]:
        yield None

    def idle(self) -> list[NodeView]:
        return [view for view in self.views if view.idle]

    def look(self, *, abort: bool = False) -> list[NodeView]:
        self.aborts.append(abort)
        return self.views

    def stop(self) -> None:
        pass


def test_ranks_that_somebody_else_started_are_never_ended(held_clock: HeldClock, tmp_path: Path) -> None:
    handle = Silent(NodeView(1, idle="its pod has not started"))
    for by_hand, is_one_node in ((False, False), (True, True), (True, False)):
        watching = Watch(handle, make_launch(layout="2x1", by_hand=by_hand), is_one_node=is_one_node)
        held_clock.advance(hang_watch.QUIET_SECONDS)
        assert watching.last_look(RunFolder(tmp_path), print)
        watching.close()
    assert handle.aborts == [True, True, False]


def watch(handle: Handle, patience: float | None = None) -> Watch:
    return Watch(handle, make_launch(layout="2x1", patience_seconds=patience))


def notes_after(seconds: float, run: Watch, held: HeldClock) -> list[str]:
    """Return the notes of the watch after some seconds more, once it has inspected the nodes."""
    held.advance(seconds)
    assert list(run.notes()) == [], "it begins to look"
    wait([run._look] if run._look else [])
    return list(run.notes())


def test_a_silent_run_goes_on_if_no_patience_was_agreed_and_the_stack_is_shown(held_clock: HeldClock) -> None:
    run = watch(Silent(rank(0, ALL_REDUCE), rank(1, LOADER)))
    for number in (0, 1):
        run.take(Line(number, 0, b""), Event(0, "epoch_start", metadata={"rank": number, "epoch_num": 2}))
    held_clock.advance(7.0)
    run.take(Line(0, 0, b"words"), None)
    assert list(run.notes()) == []
    held_clock.advance(69.0)
    assert list(run.notes()) == [], "the longest silence was of seven seconds"
    head, waits, *stacks = notes_after(2, run, held_clock)
    assert head.endswith("71 s: rank 1 (node 1) is at me/data.py:12 in fetch")
    assert waits == "  rank 0 (node 0) waits in all_reduce at me/train.py:57 in train for rank 1"
    late, *frames = stacks[: 1 + len(LOADER)]
    assert late.startswith("  rank 1: last event epoch_start 2, 78 s ago; ")
    assert frames == [f"    {file}:{line} in {function}" for file, line, function in LOADER]
    assert "rank 0: last event epoch_start 2, 71 s ago" in stacks[1 + len(LOADER)]
    held_clock.advance(1_000)
    assert list(run.notes()) == [], "a silence is looked at once"
    assert not run.is_hung(clock.monotonic())


def test_who_is_missing_is_said_again_when_it_changes_and_a_run_that_never_printed_hangs_once_its_ranks_were_seen(
    held_clock: HeldClock,
) -> None:
    handle = Silent(HOST, NodeView(1, idle="its pod has not started"))
    run = watch(handle, 20.0)
    enough = hang_watch.RENDEZVOUS_SECONDS + 1
    assert notes_after(enough, run, held_clock)[0].endswith(" 7 s: node 1 has not joined: its pod has not started")
    handle.views[1] = agent(1, trouble="silence")
    assert "silence" in notes_after(100, run, held_clock)[0]
    assert not run.is_hung(clock.monotonic()), "it may wait in a queue"
    handle.views = [rank(0, []), rank(1, [])]
    assert notes_after(enough, run, held_clock) == []
    held_clock.advance(21)
    assert run.is_hung(clock.monotonic())


def test_ranks_that_wait_for_one_to_join_say_so_soon(held_clock: HeldClock) -> None:
    run = watch(Silent(rank(0, JOINS), rank(1, LOADER)))
    for number, key in ((0, "init_start"), (1, "run_start")):
        run.take(Line(number, 0, b""), Event(0, key, metadata={"rank": number}))
    _, second, *_ = notes_after(hang_watch.RENDEZVOUS_SECONDS + 1, run, held_clock)
    assert second.startswith("  rank 0 (node 0) waits in init_process_group at")


def test_the_utilization_that_goes_on_beside_a_hang_is_no_sign_of_progress(held_clock: HeldClock) -> None:
    run = watch(Silent(), 5.0)
    run.take(Line(0, 0, b""), Event(0, "epoch_start", metadata={"rank": 0}))
    held_clock.advance(5.1)
    run.take(Line(0, 0, b""), Event(0, "load", metadata={"rank": 0}))
    run.take(Line(0, 0, b""), None)
    assert run.is_hung(clock.monotonic())
    run.take(Line(0, 0, b"words"), None)
    assert not run.is_hung(clock.monotonic())
