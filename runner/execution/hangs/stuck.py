"""Why no rank makes progress: which one the others wait for, or that they wait for each other."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from runner.core.text import listed
from runner.execution.hangs.position import Position, astray, of_connections
from runner.execution.hangs.rank_events import Heard
from runner.targets.node_view import NodeView

_MOST_LOST = 8
_ENDED = ("stopped", "disk", "zombie")


def culprit(positions: Sequence[Position]) -> Position | None:
    """Return the one rank that all others wait for, if it is one."""
    held = [position for position in positions if position.kind in _ENDED]
    if not held and any(position.waits_for_others for position in positions):
        held = [position for position in positions if position.kind in ("elsewhere", "busy")]
    return held[0] if len(held) == 1 else None


def explain(heard: Heard, views: Sequence[NodeView], positions: Sequence[Position]) -> list[str]:
    """Return in sentences why nothing is heard: first the cause, then what hides it."""
    says = [*astray(views), *_of_positions(positions)]
    seen = {position.rank for position in positions}
    for view in views:
        node = f"node {view.node}"
        if view.idle:
            says.insert(0, f"{node}: {view.idle}")
        elif view.trouble:
            says.append(f"{node} cannot be looked at: {view.trouble}")
        elif lost := [rank for rank in heard.layout.ranks_of(view.node) if rank not in seen]:
            says[:0] = [f"{_name([rank])} ({node}) {_lost(heard, view, rank)}" for rank in lost[:_MOST_LOST]]
    says += of_connections(views)
    unheard = [rank for rank in heard.own if rank not in heard.ranks]
    if unheard and len(unheard) < len(heard.own):
        says.append(f"nothing was ever heard of {_name(unheard)}")
    return says


def _lost(heard: Heard, view: NodeView, rank: int) -> str:
    """Say what is known of a rank without a process. Its launcher would have ended all had its exit code not been 0."""
    seen = view.seen
    if seen is None or seen.nameless:
        return "cannot be told from other processes, whose titles have overwritten their environment"
    if rank not in heard.ranks and not seen.ranks:
        return "has no process"
    if not any(agent.state not in "TtZ" for agent in seen.agents):
        return "has no process"
    line = heard.ranks[rank].line if rank in heard.ranks else ""
    last = f", last line: {line}" if line else ""
    return f"has ended by itself (exit code 0{last})"


def _of_positions(positions: Sequence[Position]) -> Iterable[str]:
    known = [position for position in positions if position.kind != "unknown"]
    held = [position for position in known if position.kind in _ENDED]
    waiting = [position for position in known if position.waits_for_others]
    doubtful = [position for position in known if position.kind == "spinning"]
    others = [position for position in known if position not in (*held, *waiting, *doubtful)]
    if held or (others and waiting):
        yield from map(_sentence, _alike(held or others))
        late = _name([position.rank for position in held or others])
        yield from (f"{_sentence(group)} for {late}" for group in _alike(waiting))
        yield from map(_sentence, _alike([*(others if held else []), *doubtful]))
    elif doubtful:
        yield from map(_sentence, _alike([*waiting, *doubtful, *others]))
    elif len(calls := _alike(waiting)) > 1 and _differ(waiting):
        yield f"the ranks wait in different operations: {'; '.join(map(_sentence, calls))}"
        yield "all ranks have to call the same operations in the same order"
    else:
        yield from map(_sentence, _alike([*waiting, *others]))
    unknown = [position.rank for position in positions if position.kind == "unknown"]
    if unknown:
        yield f"{_name(unknown)} cannot be asked for the stack; it is printed when the run is ended, by Ctrl-C too"


def _differ(waiting: Sequence[Position]) -> bool:
    """Return whether what the ranks call can never meet: a send and a receive can."""
    calls = {(call.kind, call.name if call.kind == "collective" else "", call.where) for call in waiting}
    return len(calls) > 1 and not all(call.kind == "pair" for call in waiting)


def _alike(positions: Iterable[Position]) -> list[list[Position]]:
    """Put ranks at the same place together; a rank that somebody stopped stands for itself."""
    groups: dict[object, list[Position]] = defaultdict(list)
    for position in positions:
        own = position.pid if position.kind in _ENDED else None
        groups[position.kind, position.name, position.where, own].append(position)
    return list(groups.values())


def _sentence(group: Sequence[Position]) -> str:
    words, ranks = group[0].words(), [position.rank for position in group]
    if len(group) > 1:
        first, _, rest = words.partition(" ")
        words = f"{ {'waits': 'wait', 'is': 'are', 'computes': 'compute'}.get(first, first) } {rest}".rstrip()
    nodes = sorted({position.node for position in group})
    return f"{_name(ranks)} (node {listed(nodes)}) {words}"


def _name(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {listed(ranks)}"
