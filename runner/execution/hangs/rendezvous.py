"""Who has joined the rendezvous and who has not, and why: first the launchers of the nodes, then their ranks."""

from collections.abc import Iterator, Sequence

from runner.core.layout import Layout
from runner.core.network import is_loopback
from runner.core.text import listed
from runner.execution.hangs.position import of_connections, positions_of
from runner.execution.hangs.rank_events import Heard
from runner.targets.node_view import AgentView, NodeView

_STOPPED = "Tt"
_STARTING = "its torchrun is starting"


def explain(heard: Heard, views: Sequence[NodeView]) -> list[str]:
    """Return who is missing and why, in sentences; nothing if all are there."""
    return list(_worlds(heard)) or list(_nodes(heard, views)) or list(_ranks(heard, views))


def is_only_starting(says: Sequence[str]) -> bool:
    """Return whether nothing is wrong but that launchers have not started yet."""
    missing = [words for words in says if " has not joined: " in words]
    return bool(missing) and all(f" has not joined: {_STARTING}" in words for words in missing)


def _worlds(heard: Heard) -> Iterator[str]:
    """Say that nodes have made worlds of their own."""
    for size in sorted(set(heard.worlds.values())):
        nodes = sorted(node for node, world in heard.worlds.items() if world == size)
        each = "each is a world of its own: " if size == 1 or len(nodes) > 1 else ""
        yield (
            f"node {listed(nodes)}: {each}the processes report a world size of {size}, not {heard.layout.world_size}; "
            "the launcher was not told of the other nodes (PET_NNODES, PET_MASTER_ADDR)"
        )


def _nodes(heard: Heard, views: Sequence[NodeView]) -> Iterator[str]:
    missing: dict[str, list[int]] = {}
    first = next((view.seen.host for view in views if view.node == 0 and view.seen), None)
    for view in views:
        if view.node not in heard.nodes and (why := _why_not(heard.layout, view, first)):
            missing.setdefault(why, []).append(view.node)
    if missing:
        absent = {node for nodes in missing.values() for node in nodes}
        joined = [view.node for view in views if view.node not in absent]
        late = sorted(missing, key=lambda why: why.startswith(_STARTING))
        yield from (f"node {listed(missing[why])} has not joined: {why}" for why in late)
        if joined:
            yield f"node {listed(joined)} has joined"


def _why_not(layout: Layout, view: NodeView, first: str | None) -> str | None:
    """Return why a node has not joined; None if it has. `first` is the host of node 0, if that is known."""
    if view.idle or view.trouble:
        return view.idle or f"it cannot be looked at: {view.trouble}"
    if view.seen is None or view.seen.ranks:
        return None
    if not view.seen.agents:
        return "no torchrun runs there"
    return _of_agent(layout, view.seen.agents[0], is_beside_node_0=view.seen.host == first)


def _of_agent(layout: Layout, agent: AgentView, *, is_beside_node_0: bool) -> str | None:
    told = agent.told
    where = f"{told.master}:{told.port}"
    if agent.state in _STOPPED:
        return f"its torchrun is stopped by a signal (process {agent.pid}: kill -CONT {agent.pid} lets it go on)"
    if told.nodes and told.nodes != str(layout.nodes):
        return f"its torchrun was told of {told.nodes} nodes, not of {layout.nodes}"
    if agent.connected or agent.listening:
        return None
    addresses = listed(agent.addresses)
    is_itself = bool(agent.addresses) and all(map(is_loopback, agent.addresses))
    if is_itself and agent.trouble == "refused" and not is_beside_node_0:
        return f"it looks for node 0 at {where}, which is {addresses}: itself; name node 0's address in the network"
    at = where if addresses in ("", told.master) else f"{where} ({addresses})"
    return {
        "": _STARTING,
        "name": f"the name of node 0 does not resolve: {told.master}: {agent.words}",
        "refused": f"{_STARTING}, and nothing listens at {at} yet"
        if is_beside_node_0
        else f"nothing listens at {at}: node 0's torchrun has not started, or that is another machine",
        "silence": f"{at} does not answer: a firewall drops it, or no machine has that address",
    }.get(agent.trouble, f"{at} cannot be reached: {agent.words}")


def _ranks(heard: Heard, views: Sequence[NodeView]) -> Iterator[str]:
    """Return which ranks have not begun to join the process group; if all have, what keeps them from each other."""
    if not heard.joining:
        return
    late = [rank for rank in heard.own if rank not in heard.joining]
    if late:
        positions = {position.rank: position for position in positions_of(heard.layout, views)}
        yield f"rank {listed(sorted(heard.joining))} waits for the others to join the process group"
        for rank in late:
            position = positions.get(rank)
            says = "it has printed nothing about it"
            if position and position.kind != "unknown":
                says = f"it {position.words()}"
            yield f"rank {rank} (node {heard.layout.node_of(rank)}) has not begun to: {says}"
        return
    waits = [rank for rank in heard.own if rank not in heard.joined]
    yield f"rank {listed(waits)} cannot make the connections of the process group"
    yield from of_connections(views)
