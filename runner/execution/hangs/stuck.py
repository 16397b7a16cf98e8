"""Why no rank makes progress: which one the others wait for, or that they wait for each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from runner.core.layout import Layout
from runner.core.text import listed
from runner.execution.hangs.connections import of_connections
from runner.execution.hangs.heard import Heard
from runner.execution.hangs.position import Position, position_of
from runner.targets.node_view import NodeView

_ENDED = ("stopped", "disk", "zombie")


def positions_of(layout: Layout, views: Sequence[NodeView], *, on_gpu: bool = False) -> list[Position]:
    """Return where each rank is whose process was seen."""
    found = {
        rank.rank: position_of(rank, view.node, on_gpu=on_gpu)
        for view in views
        for rank in (view.seen.ranks if view.seen else [])
        if 0 <= rank.rank < layout.world_size and layout.node_of(rank.rank) == view.node
    }
    return [found[rank] for rank in sorted(found)]


def culprit(positions: Sequence[Position]) -> Position | None:
    """Return the one rank that all others wait for, if it is one."""
    held = [one for one in positions if one.kind in _ENDED]
    if not held and any(one.waits_for_others for one in positions):
        held = [one for one in positions if one.kind in ("elsewhere", "busy")]
    return held[0] if len(held) == 1 else None


def explain(layout: Layout, heard: Heard, views: Sequence[NodeView], positions: Sequence[Position]) -> list[str]:
    """Say in sentences why nothing is heard: first the cause, then what hides it."""
    says = list(_of_positions(positions))
    seen = {one.rank for one in positions}
    for view in views:
        node = f"node {view.node}"
        if view.idle:
            says.insert(0, f"{node}: {view.idle}")
        elif view.trouble:
            says.append(f"{node} cannot be looked at: {view.trouble}")
        elif lost := [rank for rank in _ranks_of(layout, view.node) if rank not in seen]:
            says.insert(0, f"{_name(lost)} ({node}) has no process")
    says += of_connections(views)
    unheard = [rank for rank in heard.own if rank not in heard.ranks]
    if unheard and len(unheard) < len(heard.own):
        says.append(f"nothing was ever heard of {_name(unheard)}")
    return says


def _of_positions(positions: Sequence[Position]) -> Iterable[str]:
    known = [one for one in positions if one.kind != "unknown"]
    held = [one for one in known if one.kind in _ENDED]
    waiting = [one for one in known if one.waits_for_others]
    doubtful = [one for one in known if one.kind == "spinning"]
    others = [one for one in known if one not in held and one not in waiting and one not in doubtful]
    if held or (others and waiting):
        yield from map(_sentence, _alike(held or others))
        late = _name([one.rank for one in held or others])
        yield from (f"{_sentence(group)} for {late}" for group in _alike(waiting))
        yield from map(_sentence, _alike([*(others if held else []), *doubtful]))
    elif doubtful:
        yield from map(_sentence, _alike([*waiting, *doubtful, *others]))
    elif len(calls := _alike(waiting)) > 1 and _differ(waiting):
        yield f"the ranks wait in different operations: {'; '.join(map(_sentence, calls))}"
        yield "all ranks have to call the same operations in the same order"
    else:
        yield from map(_sentence, _alike([*waiting, *others]))
    unknown = [one.rank for one in positions if one.kind == "unknown"]
    if unknown:
        yield f"{_name(unknown)} cannot be asked for the stack: only programs with trainkit answer"


def _differ(waiting: Sequence[Position]) -> bool:
    """Whether what the ranks call can never meet: a send and a receive can."""
    return len(
        {(one.kind, one.name if one.kind == "collective" else "", one.where) for one in waiting}
    ) > 1 and not all(one.kind == "pair" for one in waiting)


def _alike(positions: Iterable[Position]) -> list[list[Position]]:
    """Put ranks at the same place together; a rank that somebody stopped stands for itself."""
    groups: dict[object, list[Position]] = defaultdict(list)
    for one in positions:
        own = one.pid if one.kind in _ENDED else None
        groups[one.kind, one.name, one.where, own].append(one)
    return list(groups.values())


def _sentence(group: Sequence[Position]) -> str:
    words, ranks = group[0].words(), [one.rank for one in group]
    if len(group) > 1:
        first, _, rest = words.partition(" ")
        words = f"{ {'waits': 'wait', 'is': 'are', 'computes': 'compute'}.get(first, first) } {rest}".rstrip()
    nodes = sorted({one.node for one in group})
    where = f" (node {listed(nodes)})"
    return f"{_name(ranks)}{where} {words}"


def _name(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {listed(ranks)}"


def _ranks_of(layout: Layout, node: int) -> range:
    first = layout.first_rank(node)
    return range(first, first + layout.processes[node])
