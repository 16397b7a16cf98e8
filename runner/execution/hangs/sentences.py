"""Who is missing at the rendezvous and why, and why ranks that are there make no progress: in sentences."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from runner.core.network import is_loopback
from runner.core.text import listed
from runner.execution.hangs.ranks import Heard, Position, positions_of, seen
from runner.targets.look import REFUSED
from runner.targets.node_view import AgentView, NodeView

STARTING = "its torchrun is starting"


def of_rendezvous(heard: Heard, views: Sequence[NodeView]) -> list[str]:
    """Say who is missing and why: first the launchers of the nodes, then their ranks; empty if all are there."""
    return list(_nodes(heard, views)) or list(_ranks(heard, views))


def of_silence(heard: Heard, views: Sequence[NodeView], positions: Sequence[Position]) -> list[str]:
    """Say why nothing is heard: first the cause, then what hides it."""
    says = list(_of_positions(positions))
    placed = {position.rank for position in positions}
    for view in views:
        if view.idle:
            says.insert(0, f"node {view.node}: {view.idle}")
        elif view.trouble:
            says.append(f"node {view.node} cannot be looked at: {view.trouble}")
        elif lost := [rank for rank in heard.layout.ranks_of(view.node) if rank not in placed]:
            says[:0] = [f"rank {rank} (node {view.node}) {_lost(heard, view, rank)}" for rank in lost]
    return [*says, *_connections(views)]


def late_of(positions: Sequence[Position]) -> list[Position]:
    """Return the ranks that the others wait for: those that answer nobody, else those that are elsewhere."""
    held = [position for position in positions if position.kind == "held"]
    waits = any(position.waits_for_others for position in positions)
    return held or [position for position in positions if waits and position.kind == "runs"]


def _nodes(heard: Heard, views: Sequence[NodeView]) -> Iterator[str]:
    missing: dict[str, list[int]] = defaultdict(list)
    first = next((view.seen.host for view in views if view.node == 0 and view.seen), None)
    for view in views:
        why = view.idle or (f"it cannot be looked at: {view.trouble}" if view.trouble else "")
        if view.seen and not why and not view.seen.ranks:
            agents, beside = view.seen.agents, view.seen.host == first
            why = _of_agent(agents[0], is_beside_node_0=beside) if agents else "no torchrun runs there"
        if why and view.node not in heard.nodes:
            missing[why].append(view.node)
    for why in sorted(missing, key=STARTING.__eq__):
        yield f"node {listed(missing[why])} has not joined: {why}"
    absent = {node for nodes in missing.values() for node in nodes}
    joined = [view.node for view in views if view.node not in absent]
    if missing and joined:
        yield f"node {listed(joined)} has joined"


def _of_agent(agent: AgentView, *, is_beside_node_0: bool) -> str:
    """Return why a launcher has not joined; empty if it has."""
    told = agent.told
    if agent.state in "Tt":
        return f"its torchrun is stopped by a signal (process {agent.pid}: kill -CONT {agent.pid} lets it go on)"
    if agent.connected or agent.listening:
        return ""
    if not agent.trouble or (agent.trouble == REFUSED and is_beside_node_0):
        return STARTING
    at, addresses = f"{told.master}:{told.port}", listed(agent.addresses)
    if agent.addresses and all(map(is_loopback, agent.addresses)):
        return f"it looks for node 0 at {at}, which is {addresses}: itself; name node 0's address in the network"
    known = f" ({addresses})" if addresses not in ("", told.master) else ""
    return f"it cannot reach node 0's torchrun at {at}{known}: {agent.trouble}"


def _ranks(heard: Heard, views: Sequence[NodeView]) -> Iterator[str]:
    """Say which ranks have not begun to join the process group; if all have, what keeps them from each other."""
    if not heard.joining:
        return
    late = [rank for rank in heard.own if rank not in heard.joining]
    if not late:
        waits = [rank for rank in heard.own if rank not in heard.joined]
        yield f"rank {listed(waits)} cannot make the connections of the process group"
        yield from _connections(views)
        return
    does = {place.rank: f"it {place.does}" for place in positions_of(heard.layout, views) if place.kind != "unknown"}
    yield f"rank {listed(sorted(heard.joining))} waits for the others to join the process group"
    for rank in late:
        says = does.get(rank, "it has printed nothing about it")
        yield f"rank {rank} (node {heard.layout.node_of(rank)}) has not begun to: {says}"


def _connections(views: Sequence[NodeView]) -> Iterator[str]:
    """Say which ranks wait for an answer, and which listen where only their own machine comes."""
    machines = {view.seen.host for view in views if view.seen}
    for node, rank in seen(views):
        name = f"rank {rank.rank} (node {node})"
        if rank.connecting:
            far = listed(rank.connecting)
            yield f"{name} gets no answer from {far}: a firewall drops it, or the interface is the wrong one"
        is_alone = bool(rank.listening) and all(is_loopback(at.rpartition(":")[0]) for at in rank.listening)
        if len(machines) > 1 and is_alone:
            yield (
                f"{name} listens at {rank.listening[0]}, where no other node comes: "
                "set GLOO_SOCKET_IFNAME to the interface that reaches the others (runner doctor names it)"
            )


def _lost(heard: Heard, view: NodeView, rank: int) -> str:
    """Say what is known of a rank without a process. Its launcher would have ended all had its exit code not been 0."""
    if view.seen is None or view.seen.nameless:
        return "cannot be told from other processes, whose titles have overwritten their environment"
    never = rank not in heard.ranks and not view.seen.ranks
    if never or not any(agent.state not in "TtZ" for agent in view.seen.agents):
        return "has no process"
    return "has ended by itself (exit code 0)"


def _of_positions(positions: Sequence[Position]) -> Iterator[str]:
    late = late_of(positions)
    waiting = [position for position in positions if position.waits_for_others]
    others = [position for position in positions if position.kind in ("runs", "unclear") and position not in late]
    unknown = [position.rank for position in positions if position.kind == "unknown"]
    waits = _sentences(waiting)
    if late:
        yield from _sentences(late)
        yield from (f"{words} for {_name([position.rank for position in late])}" for words in waits)
        yield from _sentences(others)
    elif len(waits) > 1 and not others and any(position.kind != "pair" for position in waiting):
        # A send and a receive can meet.
        yield f"the ranks wait in different operations: {'; '.join(waits)}"
        yield "all ranks have to call the same operations in the same order"
    else:
        yield from _sentences([*waiting, *others])
    if unknown:
        yield f"{_name(unknown)} cannot be asked for the stack; it is printed when the run is ended, by Ctrl-C too"


def _sentences(positions: Sequence[Position]) -> list[str]:
    """Say where ranks are, those that do the same together."""
    alike: dict[str, list[Position]] = defaultdict(list)
    for position in positions:
        alike[position.does].append(position)
    says = []
    for does, group in alike.items():
        verb, _, rest = does.partition(" ")
        if len(group) > 1:
            verb = {"waits": "wait", "is": "are", "computes": "compute"}.get(verb, verb)
        nodes = sorted({position.node for position in group})
        says.append(f"{_name([position.rank for position in group])} (node {listed(nodes)}) {verb} {rest}")
    return says


def _name(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {listed(ranks)}"
