"""Who is missing at the rendezvous and why, and why ranks that are there make no progress: in sentences."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from runner.core.layout import Layout
from runner.core.network import is_loopback
from runner.core.text import listed
from runner.execution.hangs.heard import Heard
from runner.execution.hangs.position import Position, positions_of, seen
from runner.targets.node_view import AgentView, NodeView

_STARTING = "its torchrun is starting"
_MOST_LOST = 8


def of_rendezvous(heard: Heard, views: Sequence[NodeView]) -> list[str]:
    """Say who is missing and why: first the launchers of the nodes, then their ranks; empty if all are there."""
    return list(_worlds(heard)) or list(_nodes(heard, views)) or list(_ranks(heard, views))


def is_only_starting(says: Sequence[str]) -> bool:
    """Return whether nothing is wrong but that launchers have not started yet."""
    missing = [words for words in says if " has not joined: " in words]
    return bool(missing) and all(f" has not joined: {_STARTING}" in words for words in missing)


def of_silence(heard: Heard, views: Sequence[NodeView], positions: Sequence[Position]) -> list[str]:
    """Say why nothing is heard: first the cause, then what hides it."""
    says = [*_astray(views), *_of_positions(positions)]
    placed = {position.rank for position in positions}
    for view in views:
        node = f"node {view.node}"
        if view.idle:
            says.insert(0, f"{node}: {view.idle}")
        elif view.trouble:
            says.append(f"{node} cannot be looked at: {view.trouble}")
        elif lost := [rank for rank in heard.layout.ranks_of(view.node) if rank not in placed]:
            says[:0] = [f"rank {rank} ({node}) {_lost(heard, view, rank)}" for rank in lost[:_MOST_LOST]]
    says += _connections(views)
    unheard = [rank for rank in heard.own if rank not in heard.ranks]
    if unheard and len(unheard) < len(heard.own):
        says.append(f"nothing was ever heard of {_name(unheard)}")
    return says


def culprit(positions: Sequence[Position]) -> Position | None:
    """Return the one rank that all others wait for, if it is one."""
    late = [position for position in positions if position.kind == "held"]
    if not late and any(position.waits_for_others for position in positions):
        late = [position for position in positions if position.kind == "runs"]
    return late[0] if len(late) == 1 else None


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
    missing: dict[str, list[int]] = defaultdict(list)
    first = next((view.seen.host for view in views if view.node == 0 and view.seen), None)
    for view in views:
        if view.node in heard.nodes:
            continue
        why = view.idle or (f"it cannot be looked at: {view.trouble}" if view.trouble else "")
        if view.seen and not why and not view.seen.ranks:
            agents = view.seen.agents
            beside = view.seen.host == first
            why = _of_agent(heard.layout, agents[0], is_beside_node_0=beside) if agents else "no torchrun runs there"
        if why:
            missing[why].append(view.node)
    if missing:
        absent = {node for nodes in missing.values() for node in nodes}
        for why in sorted(missing, key=lambda why: why.startswith(_STARTING)):
            yield f"node {listed(missing[why])} has not joined: {why}"
        if joined := [view.node for view in views if view.node not in absent]:
            yield f"node {listed(joined)} has joined"


def _of_agent(layout: Layout, agent: AgentView, *, is_beside_node_0: bool) -> str:
    """Return why a launcher has not joined; empty if it has."""
    told = agent.told
    where = f"{told.master}:{told.port}"
    if agent.state in "Tt":
        return f"its torchrun is stopped by a signal (process {agent.pid}: kill -CONT {agent.pid} lets it go on)"
    if told.nodes and told.nodes != str(layout.nodes):
        return f"its torchrun was told of {told.nodes} nodes, not of {layout.nodes}"
    if agent.connected or agent.listening:
        return ""
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
        own = [address for address in rank.listening if is_loopback(address.rpartition(":")[0])]
        if len(machines) > 1 and own and len(own) == len(rank.listening):
            yield (
                f"{name} listens at {own[0]}, where no other node comes: "
                "set GLOO_SOCKET_IFNAME to the interface that reaches the others (runner doctor names it)"
            )


def _astray(views: Sequence[NodeView]) -> Iterator[str]:
    """Say which ranks look for each other elsewhere than torchrun says, and what sets that."""
    alike: dict[tuple[str, str], list[int]] = defaultdict(list)
    for _, rank in seen(views):
        if rank.sets and not rank.address:
            alike["join", f"a group of {rank.size}: {listed(rank.sets)}"].append(rank.rank)
        elif rank.sets and (rank.retries or any(frame[2] == "_create_c10d_store" for frame in rank.stack)):
            silent = ", where nothing listens" * rank.silent
            alike["connect", f"to {rank.address}{silent}: {listed(rank.sets)}"].append(rank.rank)
    for (verb, words), ranks in alike.items():
        ends = "s" * (len(ranks) == 1)
        yield f"{_name(ranks)} {verb}{ends} {words} over torchrun's; leave it out or use setdefault"


def _lost(heard: Heard, view: NodeView, rank: int) -> str:
    """Say what is known of a rank without a process. Its launcher would have ended all had its exit code not been 0."""
    if view.seen is None or view.seen.nameless:
        return "cannot be told from other processes, whose titles have overwritten their environment"
    never = rank not in heard.ranks and not view.seen.ranks
    if never or not any(agent.state not in "TtZ" for agent in view.seen.agents):
        return "has no process"
    line = heard.ranks[rank].line if rank in heard.ranks else ""
    last = f", last line: {line}" if line else ""
    return f"has ended by itself (exit code 0{last})"


def _of_positions(positions: Sequence[Position]) -> Iterator[str]:
    of_kind: dict[str, list[Position]] = defaultdict(list)
    for position in positions:
        of_kind["waits" if position.waits_for_others else position.kind].append(position)
    held, waiting, runs, unclear = (of_kind[kind] for kind in ("held", "waits", "runs", "unclear"))
    groups = _alike(waiting)
    if held or (runs and waiting):
        late = held or runs
        yield from map(_sentence, _alike(late))
        yield from (f"{_sentence(group)} for {_name([position.rank for position in late])}" for group in groups)
        yield from map(_sentence, _alike([*(runs if held else []), *unclear]))
    elif len(groups) > 1 and not unclear and any(position.kind != "pair" for position in waiting):
        # A send and a receive can meet.
        yield f"the ranks wait in different operations: {'; '.join(map(_sentence, groups))}"
        yield "all ranks have to call the same operations in the same order"
    else:
        yield from map(_sentence, _alike([*waiting, *unclear, *runs]))
    if unknown := [position.rank for position in of_kind["unknown"]]:
        yield f"{_name(unknown)} cannot be asked for the stack; it is printed when the run is ended, by Ctrl-C too"


def _alike(positions: Iterable[Position]) -> list[list[Position]]:
    """Put ranks that do the same together."""
    groups: dict[str, list[Position]] = defaultdict(list)
    for position in positions:
        groups[position.does].append(position)
    return list(groups.values())


def _sentence(group: Sequence[Position]) -> str:
    words, ranks = group[0].does, [position.rank for position in group]
    if len(group) > 1:
        first, _, rest = words.partition(" ")
        words = f"{ {'waits': 'wait', 'is': 'are', 'computes': 'compute'}.get(first, first) } {rest}"
    return f"{_name(ranks)} (node {listed(sorted({position.node for position in group}))}) {words}"


def _name(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {listed(ranks)}"
