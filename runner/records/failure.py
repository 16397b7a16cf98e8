"""Who failed first and why: read from what torchrun's agents say and from what the ranks printed last.

When one rank dies, the others fail moments later because it is gone, and torchrun, which looks ten times a second,
may name any of them. So a rank whose last words are about a lost peer is taken for a victim where another is not.
"""

from __future__ import annotations

import signal

from runner.core.text import one_line
from runner.records import cause, hints
from runner.records.folder import RunFolder
from runner.records.last_lines import Child, Logs, speaks_of_a_peer
from runner.records.raw_files import RawFiles
from runner.records.schema import Failure, NodeExit, Outcome, RankFacts, Stuck

MOST_CHILDREN = 1_000
MOST_STUCK_LINES = 20
_LONGEST_CAUSE = 500
_FROM_OUTSIDE = ("interrupted", "timed_out")
# What ends a process before it can say why: the last lines that it printed are about something else.
_SILENT = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")
_UNEXPLAINED = 5
"""Last lines that are taken for the failure's own where there is no exception."""
_NO_MEMORY = "the container ran out of memory"


def first_failure(folder: RunFolder, raw: RawFiles, outcome: Outcome | None, ranks: list[RankFacts]) -> Failure | None:
    """Return the first failing rank, or the node whose launcher failed, and why; None where all ended well."""
    if outcome and outcome.stuck and outcome.stopped_because in ("hung", "timed_out"):
        return _of_stuck(outcome.stuck, raw)
    logs = Logs(folder, raw)
    found = _first(logs, raw, outcome, ranks)
    if found and outcome and outcome.stopped_because not in _FROM_OUTSIDE:
        _explain(found, logs, outcome, ranks)
    return found


def _of_stuck(stuck: Stuck, raw: RawFiles) -> Failure:
    """Return the rank that the others waited for, and its stack; if it is not one rank, where each of them was."""
    held = next((one for one in stuck.ranks if one.rank == stuck.rank), None)
    lines = held.stack if held else [f"rank {one.rank} {one.words}" for one in stuck.ranks]
    cause = one_line(stuck.says[0], _LONGEST_CAUSE) if stuck.says else None
    node = raw.places.node_of(held.rank) if held else 0
    hint = hints.find(stuck.says, [], [])
    return Failure(held.rank if held else None, node, last_lines=lines[:MOST_STUCK_LINES], cause=cause, hint=hint)


def _first(logs: Logs, raw: RawFiles, outcome: Outcome | None, ranks: list[RankFacts]) -> Failure | None:
    """Return who failed first."""
    failed = [node for node in outcome.exits if node.code != 0 or node.signal] if outcome else []
    if not failed:
        return None
    if removed := next((node for node in failed if node.removed), None):
        return _of_launcher(removed, logs)
    children = [child for node in failed[:MOST_CHILDREN] for child in logs.children(node.node)]
    children = sorted(children, key=lambda child: child.time)[:MOST_CHILDREN]
    words = {rank: logs.last_lines(rank) for rank in {child.rank for child in children}}
    aborted = {facts.rank for facts in ranks if facts.status not in (None, "success")}
    own = [node for node in failed if not node.stopped] or failed
    lost = [node for node in own if node.signal]
    if children:
        first = min(children, key=lambda child: (_innocence(child, words[child.rank], aborted), child.time, child.rank))
        first = _speaker(first, children, words)
        if lost and _innocence(first, words[first.rank], aborted):
            return _of_launcher(lost[0], logs)
        name = _signal_name(-first.code) if first.code < 0 else None
        code = first.code if first.code >= 0 else None
        node = raw.places.node_of(first.rank)
        lines = words[first.rank] or (logs.said_for(node, aborted) if code else [])
        return Failure(first.rank, node, code, name, lines)
    return _of_launcher(own[0], logs)


def _of_launcher(node: NodeExit, logs: Logs) -> Failure:
    """Return a failure that no rank is known to have begun."""
    return Failure(None, node.node, node.code, node.signal, logs.launcher_lines(node.node))


def _speaker(first: Child, children: list[Child], words: dict[int, list[str]]) -> Child:
    """Return the rank that says why, if the first one left in silence: all may refuse alike, and one speaks for all."""
    alike = [child for child in children if child.code == first.code > 0 and words[child.rank]]
    return first if words[first.rank] or not alike else alike[0]


def _innocence(child: Child, words: list[str], aborted: set[int]) -> int:
    """Say how likely a rank is only a victim: 1 if its last words are of a lost peer, 2 if it also ended in order.

    One that died by a signal or in silence is none.
    """
    is_victim = child.code > 0 and speaks_of_a_peer(words)
    return is_victim + (is_victim and child.rank in aborted)


def _explain(failure: Failure, logs: Logs, outcome: Outcome, ranks: list[RankFacts]) -> None:
    """Fill in the cause and the hint: from outside to inside, from what is surest to what is least."""
    # What a launcher printed may name a rank of a node that reported no end.
    node = next((one for one in outcome.exits if one.node == failure.node), NodeExit(failure.node))
    from_outside = [word for word in (outcome.stopped_because, node.why) if word]
    file, event, text, printed = _said(failure, logs, ranks)
    inside = [said for said in (file, event, text) if said.cause]
    causes = [*from_outside, *([_NO_MEMORY] if node.out_of_memory else []), *(said.cause for said in inside)]
    failure.cause = one_line(causes[0], _LONGEST_CAUSE) if causes else None
    said = [*from_outside, *(line for one in inside for line in one.lines)]
    silent = failure.signal in _SILENT
    if not inside and not silent:
        said += failure.last_lines[-_UNEXPLAINED:]
    ended = [failure.signal or "", *([hints.OUT_OF_MEMORY] if node.out_of_memory else [])]
    failure.hint = hints.find(said, [] if silent else printed, ended)


def _said(failure: Failure, logs: Logs, ranks: list[RankFacts]) -> tuple[cause.Said, cause.Said, cause.Said, list[str]]:
    """Return what the error file, the last event and the last lines say of a failure, and all of the last lines."""
    rank = failure.rank
    if rank is None:
        printed = logs.launcher(failure.node)
        return cause.Said(), cause.Said(), _read(failure, printed), printed
    error = next((facts.error for facts in ranks if facts.rank == rank), None)
    event = cause.of_message((error or "").removeprefix("Refusal: "))
    tails = logs.printed(rank)
    # A rank that left in silence is spoken for by the first one of its node.
    said = next((lines for lines in tails if any(lines)), failure.last_lines)
    return logs.error_file(rank), event, _read(failure, said), [line for lines in tails for line in lines]


def _read(failure: Failure, lines: list[str]) -> cause.Said:
    return cause.Said() if failure.signal in _SILENT else cause.read(lines)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
