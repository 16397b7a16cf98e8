"""Who failed first and why, read from the reports of torchrun and the last lines of each rank.

When one rank dies, the others fail moments later because it is gone, and torchrun, which looks ten times a second,
may name any of them. So a rank whose last lines are about a lost peer is a victim if another rank's are not.
"""

import re
import signal
from collections.abc import Collection
from typing import NamedTuple

from runner.core.text import escaped, listed, one_line
from runner.records import cause, hints
from runner.records.cause import VICTIM
from runner.records.folder import RawFiles, end_of
from runner.records.schema import Failure, NodeExit, Outcome, RankFacts, Stuck

LINES_KEPT = 20
_LONGEST = 500
_TAIL_BYTES = 16_384
_REPORT_BYTES = 4_000_000
# These end a process before it can say why: its last lines are about something else.
_SILENT = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")
_UNEXPLAINED = 5
"""Last lines that are searched for a hint where there is no exception."""
# How torchrun begins to report a failed worker.
_REPORT = re.compile(r"Sending process \d+ closing signal|failed \(exitcode: -?\d+\)")
# A failed worker in a ChildFailedError of torch 2.3 to 2.11 (torch/distributed/elastic/multiprocessing/errors).
_CHILD = re.compile(
    r"^ *time *: (\S+).*\n(?: *host.*\n)? *rank *: (\d{1,9})\s?\(local_rank:.*\n *exitcode *: (-?\d{1,9})", re.MULTILINE
)
_NOT_FIRST = re.compile(rf"{VICTIM.pattern}|killed by signal|keyboardinterrupt|signalexception", re.IGNORECASE)
_CLOSING = re.compile(r"Sending process (\d+) closing signal")


def first_failure(raw: RawFiles, outcome: Outcome | None, ranks: list[RankFacts]) -> Failure | None:
    """Return the first failing rank, or the node whose launcher failed, and why; None if nothing failed."""
    if outcome is None:
        return None
    if outcome.stuck and outcome.stopped_because in ("hung", "timed_out"):
        return _of_stuck(outcome.stuck, raw)
    failed = [node for node in outcome.exits if node.code != 0 or node.signal]
    if not failed:
        return None
    logs = _LastLines(raw)
    found = _first(logs, failed, ranks)
    if not found.cause and outcome.stopped_because not in ("interrupted", "timed_out"):
        _explain(found, logs, outcome, ranks)
    return found


def _of_stuck(stuck: Stuck, raw: RawFiles) -> Failure:
    """Return the rank that the others waited for, with its stack; without such a rank, the position of each."""
    held = next((rank for rank in stuck.ranks if rank.rank == stuck.rank), None)
    lines = held.stack if held else [f"rank {rank.rank} {rank.words}" for rank in stuck.ranks]
    why = one_line(stuck.says[0], _LONGEST) if stuck.says else None
    rank, node = (held.rank, raw.layout.node_of(held.rank)) if held else (None, 0)
    return Failure(rank, node, last_lines=lines[:LINES_KEPT], cause=why, hint=hints.find(stuck.says, [], []))


class _Child(NamedTuple):
    """A failed worker as reported by torchrun: the time, its rank, and its exit code or minus its signal."""

    time: str
    rank: int
    code: int


def _first(logs: "_LastLines", failed: list[NodeExit], ranks: list[RankFacts]) -> Failure:
    """Return the first failure of the nodes that failed."""
    layout = logs.raw.layout
    own = [node for node in failed if not node.stopped] or failed
    removed = next((node for node in failed if node.removed), None)
    launcher = removed or next((node for node in own if node.signal), own[0])
    reports = () if removed else (_CHILD.findall(logs.report(node.node)) for node in failed)
    children = sorted(_Child(time, int(rank), int(code)) for report in reports for time, rank, code in report)
    words = {child.rank: logs.last_lines(child.rank) for child in children}
    aborted = {facts.rank for facts in ranks if facts.status not in (None, "success")}

    def innocence(child: _Child) -> int:
        # 1 if its last lines are about a lost peer, 2 if it also ended in order; 0 after a signal or silence.
        is_victim = child.code > 0 and any(map(VICTIM.search, words[child.rank]))
        return is_victim + (is_victim and child.rank in aborted)

    first = min(children, key=lambda child: (innocence(child), child.time, child.rank), default=None)
    if first and first.code > 0 and not words[first.rank]:
        # All ranks may refuse alike while only one prints why.
        first = next((child for child in children if child.code == first.code and words[child.rank]), first)
    if first is None or (launcher.signal and innocence(first)):
        return Failure(None, launcher.node, launcher.code, launcher.signal, logs.last_lines(None, launcher.node))
    node, lines = layout.node_of(first.rank), words[first.rank]
    if innocence(first):
        # torchrun may see a victim end first, and end the rank at fault before it has an exit code.
        others = (rank for rank in range(layout.world_size) if rank not in words)
        if (rank := next(filter(logs.has_own_error, others), None)) is not None:
            return Failure(rank, layout.node_of(rank), last_lines=logs.last_lines(rank))
        if left := _left(logs, node, first.rank, words.keys()):
            return left
    if first.code < 0:
        names = {number.value: number.name for number in signal.Signals}
        return Failure(first.rank, node, None, names.get(-first.code, f"signal {-first.code}"), lines)
    speaker = layout.first_rank(node)
    if first.code and not lines and speaker in aborted:
        # torchrun may end the rank that prints why for all before it has an exit code.
        spoken = logs.last_lines(speaker)
        lines = [] if any(map(VICTIM.search, spoken)) else spoken
    return Failure(first.rank, node, first.code, None, lines)


def _left(logs: "_LastLines", node: int, victim: int, failed: Collection[int]) -> Failure | None:
    """Return the rank that ended with exit code 0 before others failed by losing it, if any.

    torchrun reports each failed worker of a node, and each remaining one that it sends a signal to
    (torch/distributed/elastic/multiprocessing/api.py).
    """
    others = [rank for rank in logs.raw.layout.ranks_of(node) if rank not in failed]
    count = len(others) - len(set(_CLOSING.findall(logs.report(node))))
    if not count:
        return None
    who, rank, lines = f"{count} of the ranks {listed(others)}", None, []
    if count == len(others):
        who, rank, lines = f"rank {listed(others)}", others[0], logs.last_lines(others[0])
    last = f", last line: {one_line(lines[-1], 200)}" if lines else ""
    why = f"{who} had ended by itself (exit code 0{last}) while rank {victim} still ran"
    advice = "all ranks have to leave the loop together (broadcast the decision)"
    return Failure(rank, node, None if rank is None else 0, last_lines=lines, cause=f"{why}: {advice}")


def _explain(failure: Failure, logs: "_LastLines", outcome: Outcome, ranks: list[RankFacts]) -> None:
    """Fill in cause and hint, from the surest source to the least sure."""
    # A launcher may name a rank of a node that reported no end.
    node = next((ended for ended in outcome.exits if ended.node == failure.node), NodeExit(failure.node))
    from_outside = [word for word in (outcome.stopped_because, node.why) if word]
    memory = ["the container ran out of memory"] if node.out_of_memory else []
    printed, statements = [], []
    if failure.rank is not None:
        file = logs.raw.output(failure.rank, "error.json")
        event = next((facts.error for facts in ranks if facts.rank == failure.rank), None) or ""
        statements = [cause.read_error_file(file), cause.of_message(event.removeprefix("Refusal: "))]
    if failure.signal not in _SILENT:
        printed = logs.printed(failure.rank, failure.node)
        # After a silent end these are the lines of the first rank of its node.
        statements.append(cause.read(next(filter(any, printed), failure.last_lines)))
    statements = [statement for statement in statements if statement.cause]
    causes = [*from_outside, *memory, *(statement.cause for statement in statements)]
    failure.cause = one_line(causes[0], _LONGEST) if causes else None
    said = [*from_outside, *(line for statement in statements for line in statement.lines)]
    if not statements and failure.signal not in _SILENT:
        said += failure.last_lines[-_UNEXPLAINED:]
    ended = [failure.signal or "", *([hints.OUT_OF_MEMORY] if memory else [])]
    failure.hint = hints.find(said, [line for lines in printed for line in lines], ended)


class _LastLines:
    """The ends of a run's raw files."""

    def __init__(self, raw: RawFiles) -> None:
        self.raw = raw

    def report(self, node: int) -> str:
        """Return the end of a launcher's log."""
        return end_of(self.raw.agents.get(node), _REPORT_BYTES)

    def last_lines(self, rank: int | None, node: int = 0) -> list[str]:
        """Return the last lines of a rank's stderr, or of its stdout if that is empty, printable and bounded."""
        printed = next(filter(any, self.printed(rank, node)), [])
        return [escaped(line, _LONGEST) for line in printed if line][-LINES_KEPT:]

    def has_own_error(self, rank: int) -> bool:
        """Return whether a rank's stderr ends with an exception that is not about a lost peer or a signal."""
        lines = self.last_lines(rank) if self.raw.output(rank, "stderr") else []
        said = cause.read(lines).cause
        return bool(said and lines[-1].endswith(said)) and not any(map(_NOT_FIRST.search, lines))

    def printed(self, rank: int | None, node: int = 0) -> list[list[str]]:
        """Return the last lines of a rank's stderr and of its stdout; without a rank those of a node's launcher.

        A pod has one log for its launcher and all processes: take the part before the launcher's report.
        """
        agent = self.raw.agents.get(node if rank is None else self.raw.layout.node_of(rank))
        if rank is None:
            return [_lines(end_of(agent, _TAIL_BYTES))]
        if rank >= self.raw.layout.world_size:
            return []
        own = [self.raw.output(rank, stream) for stream in ("stderr", "stdout")]
        if any(own):
            return [_lines(end_of(path, _TAIL_BYTES)) for path in own]
        text = end_of(agent, _TAIL_BYTES)
        if found := _REPORT.search(text):
            text = text[: text.rfind("\n", 0, found.start()) + 1]
        return [_lines(text)]


def _lines(text: str) -> list[str]:
    """Split a text into lines, without event lines."""
    return [line for line in map(str.rstrip, text.splitlines()) if not line.startswith(":::MLLOG")]
