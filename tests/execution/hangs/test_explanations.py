"""What is said of nodes that have not joined and of ranks that wait, from what was seen of their processes."""

from collections.abc import Iterator
from concurrent.futures import wait
from typing import Any

import pytest

from runner.core import clock
from runner.core.layout import Layout
from runner.execution.hangs import sentences, watch
from runner.execution.hangs.ranks import Heard, positions_of
from runner.execution.hangs.watch import Watch
from runner.records.events import Event
from runner.targets import look
from runner.targets.base import Handle, Line, Note
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
        line = Line(node, rank - layout.first_rank(node), b"")
        known.take(line, Event(0, key, metadata={"rank": rank, **fields}), 1.0)
    return known


def agent(node: int, state: str = "S", **fields: Any) -> NodeView:
    told = Told(str(node), fields.pop("master", "node0"), "29500")
    joined = {"listening": False, "connected": False, **fields}
    return NodeView(node, Seen(f"node{node}", [AgentView(7, state, told, **joined)], []))


def rank(number: int, stack: list[Any], *, state: str = "S", busy: float = 0.0, **fields: Any) -> NodeView:
    """A rank of two nodes, each of which has one."""
    seen = RankView(number, 70 + number, state, busy, stack, **fields)
    return NodeView(number, Seen(f"node{number}", [], [seen]))


HOST = agent(0, listening=True)
AT = {"addresses": ["10.0.0.1"]}
ITSELF = {"master": "localhost", "addresses": ["127.0.0.1"], "trouble": look.REFUSED}
MISSING = {
    "kill -CONT 7 lets it go on": agent(1, "T"),
    "is starting": agent(1, **AT),
    "node0:29500: the name does not resolve": agent(1, trouble="the name does not resolve"),
    "node0:29500 (10.0.0.1): nothing listens there": agent(1, **AT, trouble=look.REFUSED),
    "10.0.0.1:29500: No route to host": agent(1, master="10.0.0.1", **AT, trouble="No route to host"),
    "is 127.0.0.1: itself": agent(1, **ITSELF),
    "its container is paused": NodeView(1, idle="its container is paused"),
}


@pytest.mark.parametrize(("why", "view"), MISSING.items(), ids=str)
def test_a_node_that_has_not_joined_is_named_with_the_reason(why: str, view: NodeView) -> None:
    missing, joined = sentences.of_rendezvous(heard(), [HOST, view])
    assert missing.startswith("node 1 has not joined: ")
    assert why in missing
    assert joined == "node 0 has joined"


def test_nodes_of_one_machine_that_find_nobody_there_yet_are_starting() -> None:
    views = [agent(node, **ITSELF) for node in (0, 1)]
    assert "itself" in sentences.of_rendezvous(heard(), views)[0]
    for view in views:
        assert view.seen
        view.seen.host = "vm"
    says = sentences.of_rendezvous(heard(), views)
    assert says[0].startswith("node 0, 1 has not joined: its torchrun is starting")
    assert says[0].endswith(sentences.STARTING)


def test_a_rank_that_does_not_begin_to_join_is_named_with_where_it_is() -> None:
    waits = heard(TWO, (0, "init_start", {}), (1, "run_start", {"world_size": 2}))
    said = sentences.of_rendezvous(waits, [rank(0, []), rank(1, LOADER)])
    assert said[1] == "rank 1 (node 1) has not begun to: it is at me/data.py:12 in fetch"


def test_connections_that_nobody_answers_are_named_when_all_ranks_are_there() -> None:
    both = heard(TWO, (0, "init_start", {}), (1, "init_start", {}))
    views = [rank(0, [], listening=["127.0.1.1:4000"]), rank(1, [], connecting=["10.0.0.1:41234"])]
    said = sentences.of_rendezvous(both, views)
    assert said[0] == "rank 0, 1 cannot make the connections of the process group"
    assert said[1].startswith(
        "rank 0 (node 0) listens at 127.0.1.1:4000, where no other node comes: set GLOO_SOCKET_IFNAME"
    )
    assert said[2].startswith("rank 1 (node 1) gets no answer from 10.0.0.1:41234: a firewall drops it")


SEND, RECEIVE = ([(C10D, 1, call), ("/home/me/p2p.py", 3, "f")] for call in ("send", "recv"))
DIFFERENT = "the ranks wait in different operations: rank 0 (node 0) waits in "
IN_BARRIER = "rank 0 (node 0) waits in barrier at me/x.py:5"
IN_FETCH = "rank 1 (node 1) is at me/data.py:12 in fetch"
ON_GPU_FOR_1 = "rank 0 (node 0) waits on the GPU at me/train.py:60 in train for rank 1"
UNCLEAR = "rank 1 (node 1) is busy computing, or waiting on the GPU, at me/train.py:5"
STUCK: list[tuple[NodeView, NodeView, list[str], int | None]] = [
    (rank(0, BACKWARD), rank(1, [], state="T"), ["rank 1 (node 1) is stopped", "rank 0 (node 0) waits in backward"], 1),
    (rank(0, BACKWARD), rank(1, [], state="D"), ["rank 1 (node 1) waits for a disk", "rank 0"], 1),
    (rank(0, BACKWARD), rank(1, [], state="Z"), ["rank 1 (node 1) has ended", "rank 0"], 1),
    (
        rank(0, ALL_REDUCE),
        rank(1, ALL_REDUCE, connecting=["10.0.0.1:4000"]),
        ["ranks 0, 1 (node 0, 1) wait in all_reduce at me/train.py:57 in train", "rank 1 (node 1) gets no answer"],
        None,
    ),
    *((rank(0, ALL_REDUCE), rank(1, other), [DIFFERENT], None) for other in (BROADCAST, BARRIER, BACKWARD)),
    (rank(0, SEND), rank(1, RECEIVE), ["rank 0 (node 0) waits in send", "rank 1 (node 1) waits in recv"], None),
    (rank(0, BARRIER), rank(1, ITEM, busy=1.0), ["rank 1 (node 1) computes at", IN_BARRIER], 1),
]
"""Two ranks, the beginnings of what is said of them, and which one the other waits for."""
# A wait on the GPU keeps a core busy.
STUCK_ON_GPUS = [
    (rank(0, ON_GPU, busy=1.0), rank(1, LOADER), [IN_FETCH, ON_GPU_FOR_1], 1),
    (rank(0, BARRIER), rank(1, ON_GPU), [DIFFERENT], None),
    (rank(0, BARRIER), rank(1, EVENT_ON_GPU, busy=1.0), [DIFFERENT], None),
    *((rank(0, BARRIER, busy=1.0), rank(1, busy, busy=1.0), [IN_BARRIER, UNCLEAR], None) for busy in (ITEM, BACKWARD)),
]


def said(*views: NodeView, on_gpu: bool = False) -> list[str]:
    return sentences.of_silence(heard(), views, positions_of(TWO, views, on_gpu=on_gpu))


@pytest.mark.parametrize("on_gpu", [False, True])
def test_the_rank_that_the_others_wait_for_is_named_and_no_other(on_gpu: bool) -> None:
    for *views, begin, late in STUCK_ON_GPUS if on_gpu else STUCK:
        says = said(*views, on_gpu=on_gpu)
        assert len(says) >= len(begin), says
        assert all(map(str.startswith, says, begin)), says
        found = sentences.late_of(positions_of(TWO, views, on_gpu=on_gpu))
        assert [position.rank for position in found] == ([] if late is None else [late]), says


def test_a_rank_without_a_process_and_one_that_cannot_be_asked_are_named() -> None:
    found = said(rank(0, []), NodeView(1, Seen("node1", [], [])))
    assert found[0] == "rank 1 (node 1) has no process"
    assert found[1].startswith("rank 0 cannot be asked for the stack")


def test_a_rank_that_ended_well_while_another_waits_is_said_to_have_and_one_with_a_title_is_not() -> None:
    both = Layout.parse("1x2")
    known = heard(both, (0, "run_start", {}))
    for nameless, words in ((0, "has ended by itself"), (1, "titles")):
        seen = Seen("node0", agent(0).seen.agents, [RankView(1, 71, "S", 0.0, list(ALL_REDUCE))], nameless)
        view = NodeView(0, seen)
        says = sentences.of_silence(known, [view], positions_of(both, [view]))
        assert words in says[0]
        assert says[0].startswith("rank 0 (node 0) ")


def test_ranks_that_look_for_the_store_are_said_to_and_no_rank_is_said_to_wait_for_them() -> None:
    (first,) = said(rank(0, [], retries=True), rank(1, [], retries=True))
    assert first.startswith("ranks 0, 1 (node 0, 1) may be looking for the store of the group")
    assert not any(" for rank 0" in words for words in said(rank(0, [], retries=True), rank(1, ALL_REDUCE)))


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
    views = [rank(0, look.main_thread(THREAD)), rank(1, ALL_REDUCE)]
    one, _ = positions_of(TWO, views)
    assert one.does == "waits for a thread at me/train.py:60"
    assert sentences.late_of(positions_of(TWO, views)) == []


class Silent(Handle):
    """A run of which nothing is heard; what its nodes show."""

    def __init__(self, *views: NodeView) -> None:
        self.views = list(views)

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


def test_a_silent_run_goes_on_if_no_patience_was_agreed_and_the_stack_is_shown(
    held_clock: HeldClock,
) -> None:
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


def test_who_is_missing_is_said_again_when_it_changes(held_clock: HeldClock) -> None:
    handle = Silent(HOST, NodeView(1, idle="its pod has not started"))
    run = Watch(handle, TWO, None)
    enough = watch.RENDEZVOUS_SECONDS + 1
    assert notes_after(enough, run, held_clock)[0].endswith(" 7 s: node 1 has not joined: its pod has not started")
    handle.views[1] = agent(1, trouble="silence")
    assert "silence" in notes_after(enough, run, held_clock)[0]
    handle.views = [rank(0, []), rank(1, [])]
    assert notes_after(enough, run, held_clock) == []


def test_a_run_that_never_printed_is_hung_once_its_ranks_were_seen(
    held_clock: HeldClock,
) -> None:
    handle = Silent(HOST, NodeView(1, idle="its pod has not started"))
    run = Watch(handle, TWO, 20.0)
    assert notes_after(100, run, held_clock)
    assert not run.is_hung(clock.monotonic()), "it waits in a queue"
    handle.views = [rank(0, []), rank(1, [])]
    assert notes_after(watch.RENDEZVOUS_SECONDS + 1, run, held_clock) == []
    held_clock.advance(21)
    assert run.is_hung(clock.monotonic())


def test_the_utilization_that_goes_on_beside_a_hang_is_no_sign_of_progress(
    held_clock: HeldClock,
) -> None:
    run = Watch(Silent(), TWO, 5.0)
    run.take(Line(0, 0, b""), Event(0, "epoch_start", metadata={"rank": 0}))
    held_clock.advance(5.1)
    run.take(Line(0, 0, b""), Event(0, "load", metadata={"rank": 0}))
    assert run.is_hung(clock.monotonic())
    run.take(Line(0, 0, b""), None)
    assert run.is_hung(clock.monotonic()), "an empty line says nothing"
    run.take(Line(0, 0, b"words"), None)
    assert not run.is_hung(clock.monotonic())
