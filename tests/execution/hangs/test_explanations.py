"""What is said of nodes that have not joined and of ranks that wait, from what was seen of their processes."""

from collections.abc import Iterator
from concurrent.futures import wait
from typing import Any

import pytest

from runner.core import clock
from runner.core.layout import Layout
from runner.execution.hangs import rendezvous, stuck, watch
from runner.execution.hangs.position import positions_of, with_stack
from runner.execution.hangs.rank_events import Heard
from runner.execution.hangs.watch import Watch
from runner.records.events import Event
from runner.records.schema import NodeExit
from runner.targets import look
from runner.targets.base import Line, Note
from runner.targets.node_view import AgentView, NodeView, RankView, Seen, Told
from tests.support.held_clock import HeldClock

TWO = Layout.parse("2x1")
TORCH = "/usr/lib/python3/site-packages/torch"
C10D = f"{TORCH}/distributed/distributed_c10d.py"
WRAPPER = (f"{TORCH}/distributed/c10d_logger.py", 75, "wrapper")
MODULE = ("/home/me/train.py", 90, "<module>")
ALL_REDUCE = [(C10D, 2224, "all_reduce"), WRAPPER, ("/home/me/train.py", 57, "train"), MODULE]
BROADCAST = [(C10D, 2100, "broadcast"), WRAPPER, ("/home/me/train.py", 61, "train"), MODULE]
OWN = ("/k/trainkit/distributed.py", 9, "barrier")
BARRIER = [(C10D, 3600, "barrier"), WRAPPER, OWN, ("/home/me/x.py", 5, "<module>")]
BACKWARD = [(f"{TORCH}/autograd/graph.py", 744, "_engine_run_backward"), ("/home/me/train.py", 58, "train")]
ON_GPU = [(f"{TORCH}/cuda/__init__.py", 892, "synchronize"), ("/home/me/train.py", 60, "train")]
EVENT_ON_GPU = [(f"{TORCH}/cuda/streams.py", 224, "synchronize"), ("/home/me/train.py", 60, "train")]
ITEM = [("/home/me/train.py", 59, "train")]
QUEUE = ("/usr/lib/python3/queue.py", 171, "get")
LOADER = [QUEUE, ("/home/me/data.py", 12, "fetch"), ("/home/me/train.py", 50, "train")]


def heard(layout: Layout = TWO, *events: tuple[int, str, dict[str, Any]]) -> Heard:
    """What was heard: (rank, key, fields)."""
    known = Heard(layout, 0.0, tuple(range(layout.nodes)))
    for rank, key, fields in events:
        node = layout.node_of(rank)
        known.take(
            *Line(node, rank - layout.first_rank(node), b""), Event(0, key, metadata={"rank": rank, **fields}), 1.0
        )
    return known


def agent(node: int, state: str = "S", **fields: Any) -> NodeView:
    told = Told(str(node), fields.pop("nodes", "2"), fields.pop("master", "node0"), "29500")
    joined = {"listening": False, "connected": False, **fields}
    return NodeView(node, Seen(f"node{node}", [AgentView(7, state, 1.0, told, **joined)], []))


def rank(number: int, stack: list[Any], *, state: str = "S", busy: float = 0.0, **fields: Any) -> NodeView:
    """A rank of two nodes, each of which has one."""
    seen = RankView(number, 70 + number, state, busy, stack, **fields)
    return NodeView(number, Seen(f"node{number}", [], [seen]))


HOST = agent(0, listening=True)
MISSING = {
    "its torchrun is stopped by a signal (process 7: kill -CONT 7 lets it go on)": agent(1, "T"),
    "its torchrun was told of 1 nodes, not of 2": agent(1, nodes="1"),
    "its torchrun is starting": agent(1, addresses=["10.0.0.1"]),
    "the name of node 0 does not resolve: node0: Name or service not known": agent(
        1, trouble="name", words="Name or service not known"
    ),
    "nothing listens at node0:29500 (10.0.0.1): node 0's torchrun has not started, or that is another machine": agent(
        1, addresses=["10.0.0.1"], trouble="refused"
    ),
    "node0:29500 (10.0.0.1) does not answer: a firewall drops it, or no machine has that address": agent(
        1, addresses=["10.0.0.1"], trouble="silence"
    ),
    "10.0.0.1:29500 cannot be reached: No route to host": agent(
        1, master="10.0.0.1", addresses=["10.0.0.1"], trouble="unreachable", words="No route to host"
    ),
    "it looks for node 0 at localhost:29500, which is 127.0.0.1: itself; name node 0's address in the network": agent(
        1, master="localhost", addresses=["127.0.0.1"], trouble="refused"
    ),
    "its container is paused": NodeView(1, idle="its container is paused"),
}


@pytest.mark.parametrize(("why", "view"), MISSING.items(), ids=str)
def test_a_node_that_has_not_joined_is_named_with_the_reason(why: str, view: NodeView) -> None:
    assert rendezvous.explain(heard(), [HOST, view]) == [f"node 1 has not joined: {why}", "node 0 has joined"]


def test_nodes_of_one_machine_that_find_nobody_there_yet_are_starting() -> None:
    views = [agent(node, master="localhost", addresses=["127.0.0.1"], trouble="refused") for node in (0, 1)]
    apart = rendezvous.explain(heard(), views)
    assert "node 1 has not joined: it looks for node 0 at localhost:29500, which is 127.0.0.1: itself" in apart[0]
    for view in views:
        assert view.seen
        view.seen.host = "vm"
    said = rendezvous.explain(heard(), views)
    assert said == [
        "node 0, 1 has not joined: its torchrun is starting, and nothing listens at localhost:29500 (127.0.0.1) yet"
    ]
    assert rendezvous.is_only_starting(said)


def test_nodes_that_each_made_a_world_of_their_own_are_named_and_one_process_may_start_one() -> None:
    both = heard(TWO, (0, "run_start", {"world_size": 1}), (1, "run_start", {"world_size": 1, "rank": 0}))
    (said,) = rendezvous.explain(both, [])
    assert said.startswith("node 0, 1: each is a world of its own: the processes report a world size of 1, not 2")
    alone = Layout.parse("1x1")
    known = heard(alone, (0, "run_start", {"world_size": 2}), (0, "run_start", {"world_size": 2, "rank": 1}))
    assert rendezvous.explain(known, []) == []
    assert not known.worlds


def test_a_rank_that_does_not_begin_to_join_is_named_with_where_it_is() -> None:
    waits = heard(TWO, (0, "init_start", {}), (1, "run_start", {"world_size": 2}))
    said = rendezvous.explain(waits, [rank(0, []), rank(1, LOADER)])
    assert said[1] == "rank 1 (node 1) has not begun to: it is at me/data.py:12 in fetch"


def test_connections_that_nobody_answers_are_named_when_all_ranks_are_there() -> None:
    both = heard(TWO, (0, "init_start", {}), (1, "init_start", {}))
    views = [rank(0, [], listening=["127.0.1.1:4000"]), rank(1, [], connecting=["10.0.0.1:41234"])]
    said = rendezvous.explain(both, views)
    assert said[0] == "rank 0, 1 cannot make the connections of the process group"
    assert said[1].startswith(
        "rank 0 (node 0) listens at 127.0.1.1:4000, where no other node comes: set GLOO_SOCKET_IFNAME"
    )
    assert said[2].startswith("rank 1 (node 1) gets no answer from 10.0.0.1:41234: a firewall drops it")


def said(*views: NodeView, on_gpu: bool = False) -> list[str]:
    return stuck.explain(heard(), views, positions_of(TWO, views, on_gpu=on_gpu))


def named(*views: NodeView) -> int | None:
    """The rank that the others of two are said to wait for, on GPUs."""
    held = stuck.culprit(positions_of(TWO, views, on_gpu=True))
    return held.rank if held else None


@pytest.mark.parametrize(
    ("state", "words"),
    [("T", "is stopped by a signal (process 71: "), ("D", "waits for a disk or a device"), ("Z", "has ended")],
)
def test_a_process_that_answers_nobody_is_the_cause(state: str, words: str) -> None:
    found = said(rank(0, BACKWARD), rank(1, [], state=state))
    assert found[0].startswith(f"rank 1 (node 1) {words}")
    assert found[1].startswith("rank 0 (node 0) waits in backward")


def test_ranks_in_one_operation_wait_for_what_lies_between_them() -> None:
    views = [rank(0, ALL_REDUCE), rank(1, ALL_REDUCE, connecting=["10.0.0.1:4000"])]
    assert said(*views)[0] == "ranks 0, 1 (node 0, 1) wait in all_reduce at me/train.py:57 in train"
    assert said(*views)[1].startswith("rank 1 (node 1) gets no answer from 10.0.0.1:4000")
    assert stuck.culprit(positions_of(TWO, views)) is None


def test_different_operations_are_told_apart_and_a_send_and_a_receive_are_none() -> None:
    for other in (BROADCAST, BARRIER, BACKWARD):
        assert said(rank(0, ALL_REDUCE), rank(1, other))[0].startswith("the ranks wait in different operations: rank 0")
    send, receive = [(C10D, 1, "send"), ("/home/me/p2p.py", 3, "f")], [(C10D, 1, "recv"), ("/home/me/p2p.py", 5, "f")]
    assert not any("different" in line for line in said(rank(0, send), rank(1, receive)))


@pytest.mark.parametrize("waits", [ON_GPU, EVENT_ON_GPU], ids=["device", "event"])
@pytest.mark.parametrize("busy", [0.0, 1.0])
def test_a_rank_that_waits_on_its_gpu_is_no_culprit_though_it_keeps_a_core_busy(waits: list[Any], busy: float) -> None:
    views = rank(0, BARRIER, busy=1.0), rank(1, waits, busy=busy)
    assert said(*views, on_gpu=True)[0] == (
        "the ranks wait in different operations: rank 0 (node 0) waits in barrier at me/x.py:5;"
        " rank 1 (node 1) waits on the GPU at me/train.py:60 in train"
    )
    assert named(*views) is None


def test_a_rank_on_a_gpu_waits_for_the_one_that_hangs_elsewhere() -> None:
    views = rank(0, ON_GPU, busy=1.0), rank(1, LOADER)
    assert said(*views, on_gpu=True) == [
        "rank 1 (node 1) is at me/data.py:12 in fetch",
        "rank 0 (node 0) waits on the GPU at me/train.py:60 in train for rank 1",
    ]
    assert named(*views) == 1


@pytest.mark.parametrize("stack", [ITEM, BACKWARD], ids=["item", "backward"])
def test_a_busy_rank_of_a_run_on_gpus_is_no_culprit_because_it_may_wait_as_well(stack: list[Any]) -> None:
    views = rank(0, BARRIER, busy=1.0), rank(1, stack, busy=1.0)
    line = stack[-1][1]
    assert said(*views, on_gpu=True) == [
        "rank 0 (node 0) waits in barrier at me/x.py:5",
        f"rank 1 (node 1) is busy computing, or waiting on the GPU, at me/train.py:{line} in train",
    ]
    assert named(*views) is None


def test_a_stack_that_a_busy_rank_printed_when_it_was_ended_names_it_no_culprit_either() -> None:
    waiting, unknown = positions_of(TWO, [rank(0, BARRIER), rank(1, [], busy=1.0)], on_gpu=True)
    stack = tuple((str(file), int(line), str(function)) for file, line, function in ITEM)
    assert stuck.culprit([waiting, with_stack(unknown, stack, on_gpu=True)]) is None
    assert stuck.culprit([waiting, with_stack(unknown, stack, on_gpu=False)]) is not None


def test_a_rank_without_a_process_and_one_that_cannot_be_asked_are_named() -> None:
    found = said(rank(0, []), NodeView(1, Seen("node1", [], [])))
    assert found[0] == "rank 1 (node 1) has no process"
    assert found[1].startswith("rank 0 cannot be asked for the stack")


def test_a_rank_that_ended_well_while_another_waits_is_said_to_have_and_one_with_a_title_is_not() -> None:
    both = Layout.parse("1x2")
    known = heard(both)
    known.take(*Line(0, 0, b"early stopping at epoch 3"), None, 1.0)
    for nameless, words in ((0, "has ended by itself (exit code 0, last line: early"), (1, "titles")):
        seen = Seen("node0", agent(0).seen.agents, [RankView(1, 71, "S", 0.0, list(ALL_REDUCE))], nameless)
        view = NodeView(0, seen)
        says = stuck.explain(known, [view], positions_of(both, [view]))
        assert words in says[0]
        assert says[0].startswith("rank 0 (node 0) ")


def test_a_line_that_sets_where_the_ranks_meet_is_named_first() -> None:
    told = {"sets": ["train.py:5 sets MASTER_PORT"], "address": "127.0.0.1:29500", "silent": True, "retries": True}
    first, *_ = said(*(rank(number, [], **told) for number in (0, 1)))
    assert first.startswith("ranks 0, 1 connect to 127.0.0.1:29500, where nothing listens: train.py:5 sets MASTER_PORT")
    assert not any("connect" in words for words in said(rank(0, LOADER, **{**told, "retries": False}), rank(1, LOADER)))
    own = {"sets": ["train.py:3 sets WORLD_SIZE"], "size": "4"}
    assert said(rank(0, ALL_REDUCE, **own), rank(1, []))[0].startswith("rank 0 joins a group of 4: train.py:3")


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


def test_a_process_that_only_waits_for_a_thread_is_where_the_thread_is() -> None:
    (one,) = positions_of(TWO, [rank(0, look.main_thread(THREAD))])
    assert one.words() == "is at me/train.py:30 in work, in a thread that its main thread waits for at me/train.py:60"
    several = THREAD.replace("\nThread 0x2", THREAD.partition("\nThread 0x2")[0] + "\nThread 0x2")
    (one,) = positions_of(TWO, [rank(0, look.main_thread(several))])
    assert one.words() == "waits for a thread at me/train.py:60"


class Silent:
    """A run of which nothing is heard; what its nodes show."""

    def __init__(self, *views: NodeView) -> None:
        self.views = list(views)
        self.exits: list[NodeExit] = []

    def lines(self) -> Iterator[Line | Note | None]:
        yield None

    def idle(self) -> list[NodeView]:
        return [view for view in self.views if view.idle]

    def look(self, *, abort: bool = False) -> list[NodeView]:
        assert not abort
        return self.views

    def stop(self) -> None:
        """Nothing runs."""


def notes_after(seconds: float, run: Watch, held: HeldClock) -> list[str]:
    """What the watch says after so many seconds more, once it has looked at the nodes."""
    held.advance(seconds)
    assert list(run.notes()) == [], "it begins to look"
    wait([run._look] if run._look else [])
    return list(run.notes())


def test_a_silent_run_goes_on_if_no_patience_was_agreed_and_the_stack_is_shown(held_clock: HeldClock) -> None:
    run = Watch(Silent(rank(0, ALL_REDUCE), rank(1, LOADER)), TWO, None)
    for number in (0, 1):
        run.take(Line(number, 0, b""), Event(0, "epoch_start", metadata={"rank": number, "epoch_num": 2}))
    held_clock.advance(7.0)
    run.take(Line(0, 0, b"words"), None)
    assert list(run.notes()) == []
    held_clock.advance(69.0)
    assert list(run.notes()) == [], "the longest silence was of seven seconds"
    assert notes_after(2, run, held_clock) == [
        "no rank was heard of for 71 s: rank 1 (node 1) is at me/data.py:12 in fetch",
        "  rank 0 (node 0) waits in all_reduce at me/train.py:57 in train for rank 1",
        "  rank 1: last event epoch_start 2, 78 s ago; the stack, the innermost line first:",
        "    /usr/lib/python3/queue.py:171 in get",
        "    /home/me/data.py:12 in fetch",
        "    /home/me/train.py:50 in train",
        "  rank 0: last event epoch_start 2, 71 s ago; the stack, the innermost line first:",
        *(f"    {file}:{line} in {function}" for file, line, function in ALL_REDUCE),
    ]
    held_clock.advance(1_000)
    assert list(run.notes()) == [], "a silence is looked at once"
    assert not run.is_hung(clock.monotonic())
    run.close()


def test_who_is_missing_is_said_again_when_it_changes(held_clock: HeldClock) -> None:
    handle = Silent(HOST, NodeView(1, idle="its pod has not started"))
    run = Watch(handle, TWO, None)
    enough = watch.RENDEZVOUS_SECONDS + 1
    assert notes_after(enough, run, held_clock)[0].endswith(" 7 s: node 1 has not joined: its pod has not started")
    handle.views[1] = agent(1, trouble="silence")
    assert "does not answer" in notes_after(enough, run, held_clock)[0]
    handle.views = [rank(0, []), rank(1, [])]
    assert notes_after(enough, run, held_clock) == []
    run.close()


def test_a_run_that_never_printed_is_hung_once_its_ranks_were_seen(held_clock: HeldClock) -> None:
    handle = Silent(HOST, NodeView(1, idle="its pod has not started"))
    run = Watch(handle, TWO, 20.0)
    assert notes_after(100, run, held_clock)
    assert not run.is_hung(clock.monotonic()), "it waits in a queue"
    handle.views = [rank(0, []), rank(1, [])]
    assert notes_after(watch.RENDEZVOUS_SECONDS + 1, run, held_clock) == []
    held_clock.advance(21)
    assert run.is_hung(clock.monotonic())
    run.close()


def test_the_utilization_that_goes_on_beside_a_hang_is_no_sign_of_progress(held_clock: HeldClock) -> None:
    run = Watch(Silent(), TWO, 5.0)
    run.take(Line(0, 0, b""), Event(0, "epoch_start", metadata={"rank": 0}))
    held_clock.advance(5.1)
    run.take(Line(0, 0, b""), Event(0, "load", metadata={"rank": 0}))
    assert run.is_hung(clock.monotonic())
    run.take(Line(0, 0, b""), None)
    assert run.is_hung(clock.monotonic()), "an empty line says nothing"
    run.take(Line(0, 0, b"words"), None)
    assert not run.is_hung(clock.monotonic())
    run.close()
