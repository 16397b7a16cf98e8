"""Explain in sentences why a run hangs: which nodes have not joined the rendezvous, or which rank makes no progress."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from runner.core.layout import Layout
from runner.core.network import is_loopback
from runner.core.text import listed
from runner.core.values import whole
from runner.execution.hangs.places import Place, places_of, seen
from runner.logs.mlperf import OBSERVED
from runner.records.events import Event
from runner.records.schema import Stuck, StuckRank
from runner.targets.base import Line
from runner.targets.look import REFUSED
from runner.targets.node_view import AgentView, NodeView

STARTING = "its torchrun is starting"
_OF_THE_NODE = "load"
"""Key of the events of a separate thread, which goes on printing while the training hangs."""
_LONGEST_EPOCH = 1_000_000_000
_MOST_FRAMES = 20


class Heard:
    """The latest output of each rank of a run. Times are in seconds of a monotonic clock."""

    def __init__(self, layout: Layout, began: float) -> None:
        self.layout = layout
        self.began = self.last = began
        self.when: dict[int, float] = {}
        """Time of the last line of each rank."""
        self.events: dict[int, str] = {}
        """Last event of each rank, for example `epoch_start 2`."""
        self.nodes: set[int] = set()
        self.joining: set[int] = set()
        """Ranks that are joining the process group."""
        self.longest = 0.0
        """Duration of the longest past silence, in which no rank printed."""

    def take(self, line: Line, event: Event | None, now: float) -> None:
        """Record a line of a process. Empty lines are ignored, because programs print a newline before each event."""
        if event.key == _OF_THE_NODE if event is not None else not line.text.strip():
            return
        self.longest, self.last = max(self.longest, now - self.last), now
        self.nodes.add(line.node)
        stated = whole(event.metadata.get("rank"), 0, self.layout.world_size - 1) if event else None
        rank = self.layout.first_rank(line.node) + line.local_rank if stated is None else stated
        self.when[rank] = now
        if event is None or event.key == OBSERVED:
            return
        epoch = whole(event.metadata.get("epoch_num"), 0, _LONGEST_EPOCH)
        self.events[rank] = event.key if epoch is None else f"{event.key} {epoch}"
        if event.key == "init_start":
            self.joining.add(rank)
        elif event.key == "init_stop":
            self.joining.discard(rank)


def of_rendezvous(heard: Heard, views: Sequence[NodeView]) -> list[str]:
    """Explain which nodes are missing at the rendezvous, and why. Returns [] if no node is missing."""
    missing: dict[str, list[int]] = defaultdict(list)
    host = next((view.seen.host for view in views if view.node == 0 and view.seen), None)
    for view in views:
        if why := _absence(view, heard, is_beside_node_0=bool(view.seen and view.seen.host == host)):
            missing[why].append(view.node)
    if missing:
        absent = {node for nodes in missing.values() for node in nodes}
        joined = [view.node for view in views if view.node not in absent]
        says = [f"node {listed(missing[why])} has not joined: {why}" for why in sorted(missing, key=STARTING.__eq__)]
        return says + ([f"node {listed(joined)} has joined"] if joined else [])
    return []


def of_silence(heard: Heard, views: Sequence[NodeView], now: float, *, on_gpu: bool = False) -> Stuck:
    """Explain why no rank prints. The cause comes first, such as a rank that cannot run or that the others wait for."""
    places = places_of(heard.layout, views, on_gpu=on_gpu)
    waiting = [place for place in places if place.kind in ("waits", "pair")]
    late = [place for place in places if place.kind == "held"]
    late = late or [place for place in places if waiting and place.kind == "runs"]
    others = [place for place in places if place.kind in ("runs", "unclear") and place not in late]
    unknown = [place.rank for place in places if place.kind == "unknown"]
    waits = _sentences(waiting)
    if late:
        whom = listed(place.rank for place in late)
        says = [*_sentences(late), *(f"{words} for rank {whom}" for words in waits), *_sentences(others)]
    elif len(waits) > 1 and not others and any(place.kind == "waits" for place in waiting):
        # If all wait point to point, the operations may differ: a send matches a receive.
        says = [f"the ranks wait in different operations: {'; '.join(waits)}"]
        says.append("all ranks must call the same operations in the same order")
    else:
        says = [*waits, *_sentences(others)]
    if unknown:
        says.append(f"rank {listed(unknown)}: the stack cannot be read; it is printed when the run is ended")
    for view in views:
        lacks = [rank for rank in heard.layout.ranks_of(view.node) if rank not in {place.rank for place in places}]
        if view.idle:
            says.insert(0, f"node {view.node}: {view.idle}")
        elif view.trouble:
            says.append(f"node {view.node} cannot be inspected: {view.trouble}")
        else:
            says[:0] = [f"rank {rank} (node {view.node}) {_lost(heard, view, rank)}" for rank in lacks]
    ranks = []
    for place in places:
        when, event = heard.when.get(place.rank), heard.events.get(place.rank, "")
        quiet = None if when is None else round(now - when, 1)
        ranks.append(StuckRank(place.rank, place.node, place.does, event, quiet, place.stack[:_MOST_FRAMES]))
    rank = late[0].rank if len(late) == 1 else None
    return Stuck(now - heard.last, [*says, *_connections(views)], rank, ranks)


def _absence(view: NodeView, heard: Heard, *, is_beside_node_0: bool) -> str | None:
    agents = view.seen.agents if view.seen else []
    for nodes in [agent.told.nodes for agent in agents]:
        if nodes not in (None, str(heard.layout.nodes)):  # the node's ranks may train alone
            return f"its torchrun has nnodes={nodes}, not {heard.layout.nodes}"
    if view.node in heard.nodes:
        return None
    if view.idle or view.trouble:
        return view.idle or f"it cannot be inspected: {view.trouble}"
    if not view.seen or view.seen.ranks:
        return None
    return _of_agent(agents[0], is_beside_node_0=is_beside_node_0) if agents else "no torchrun runs there"


def _of_agent(agent: AgentView, *, is_beside_node_0: bool) -> str | None:
    told = agent.told
    if agent.state in "Tt":
        return f"its torchrun is stopped by a signal (process {agent.pid}: kill -CONT {agent.pid} lets it go on)"
    if agent.connected or agent.listening:
        return None
    if not agent.trouble or (agent.trouble == REFUSED and is_beside_node_0):
        return STARTING
    at, addresses = f"{told.master}:{told.port}", listed(agent.addresses)
    if agent.addresses and all(map(is_loopback, agent.addresses)):
        return f"it looks for node 0 at {at}, which is itself ({addresses}): use node 0's network address"
    known = f" ({addresses})" if addresses not in ("", told.master) else ""
    return f"it cannot reach node 0's torchrun at {at}{known}: {agent.trouble}"


def _connections(views: Sequence[NodeView]) -> Iterator[str]:
    machines = {view.seen.host for view in views if view.seen}
    for node, rank in seen(views):
        name = f"rank {rank.rank} (node {node})"
        if rank.connecting:
            far = listed(rank.connecting)
            yield f"{name} gets no answer from {far}: blocked by a firewall, or sent from the wrong interface"
        is_alone = bool(rank.listening) and all(is_loopback(at.rpartition(":")[0]) for at in rank.listening)
        if len(machines) > 1 and is_alone:
            yield (
                f"{name} listens at {rank.listening[0]}, which no other node can reach: "
                "set GLOO_SOCKET_IFNAME to the interface that reaches the others (runner doctor names it)"
            )


def _lost(heard: Heard, view: NodeView, rank: int) -> str:
    if view.seen is None or view.seen.nameless:
        return "cannot be told from other processes, whose titles have overwritten their environment"
    never = rank not in heard.when and not view.seen.ranks
    if never or not any(agent.state not in "TtZ" for agent in view.seen.agents):
        return "has no process"
    return "has ended by itself (exit code 0)"  # after any other code, the launcher would have ended all ranks


def _sentences(places: Iterable[Place]) -> list[str]:
    alike: dict[str, list[Place]] = defaultdict(list)
    for place in places:
        alike[place.does].append(place)
    return [
        f"rank {listed(place.rank for place in group)} (node {listed(sorted({place.node for place in group}))}) {does}"
        for does, group in alike.items()
    ]
