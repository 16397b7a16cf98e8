"""Who failed first and why: read from what torchrun's agents say and from what the ranks printed last.

When one rank dies, the others fail moments later because it is gone, and torchrun, which looks ten times a second,
may name any of them. So a rank whose last words are about a lost peer is taken for a victim where another is not.
"""

import re
import signal
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from runner.core.text import escaped, listed, one_line
from runner.records import cause, hints
from runner.records.cause import Statement
from runner.records.folder import RunFolder
from runner.records.raw_files import RawFiles
from runner.records.schema import Failure, NodeExit, Outcome, RankFacts, Stuck
from trainkit import files

MOST_CHILDREN = 1_000
MOST_STUCK_LINES = 20
_LONGEST_CAUSE = 500
_FROM_OUTSIDE = ("interrupted", "timed_out")
# What ends a process before it can say why: the last lines that it printed are about something else.
_SILENT = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP")
_UNEXPLAINED = 5
"""Last lines that are taken for the failure's own where there is no exception."""
_NO_MEMORY = "the container ran out of memory"
LINES_KEPT = 20
_LONGEST = 500
_LONGEST_LAST = 200
_TAIL_BYTES = 16_384
_REPORT_BYTES = 4_000_000
# With these words torchrun begins to report a worker that failed.
_REPORT = re.compile(r"Sending process \d+ closing signal|failed \(exitcode: -?\d+\)")
# Of lines about a lost rank: whoever printed them may be only a victim. Searched in time linear in the line's length:
# nothing unbounded stands before a part that may fail.
VICTIM = re.compile(
    r"connection (closed|reset|refused)|broken pipe|connection was (closed|reset)|peer [^\n]{0,100}(closed|lost)|"
    r"remote process exited|socket timeout|recvvalue failed|\]:\d{1,5}: [^\n]{0,100}(reset|closed)|distnetworkerror|"
    r"watchdog|application timeout caused pair closure",
    re.IGNORECASE,
)
_NOT_FIRST = re.compile(rf"{VICTIM.pattern}|killed by signal|keyboardinterrupt|signalexception", re.IGNORECASE)
_CLOSING = re.compile(r"Sending process (\d+) closing signal")
_RANK = re.compile(r"(\d{1,9})\s?\(local_rank:")
_CODE = re.compile(r"-?\d{1,9}")


def first_failure(folder: RunFolder, raw: RawFiles, outcome: Outcome | None, ranks: list[RankFacts]) -> Failure | None:
    """Return the first failing rank, or the node whose launcher failed, and why; None where all ended well."""
    if outcome and outcome.stuck and outcome.stopped_because in ("hung", "timed_out"):
        return _of_stuck(outcome.stuck, raw)
    logs = LastLines(folder, raw)
    found = _first(logs, raw, outcome, ranks)
    if found and not found.cause and outcome and outcome.stopped_because not in _FROM_OUTSIDE:
        _explain(found, logs, outcome, ranks)
    return found


def _of_stuck(stuck: Stuck, raw: RawFiles) -> Failure:
    """Return the rank that the others waited for, and its stack; if it is not one rank, where each of them was."""
    held = next((rank for rank in stuck.ranks if rank.rank == stuck.rank), None)
    lines = held.stack if held else [f"rank {rank.rank} {rank.words}" for rank in stuck.ranks]
    cause = one_line(stuck.says[0], _LONGEST_CAUSE) if stuck.says else None
    node = raw.layout.node_of(held.rank) if held else 0
    hint = hints.find(stuck.says, [], [])
    return Failure(held.rank if held else None, node, last_lines=lines[:MOST_STUCK_LINES], cause=cause, hint=hint)


def _first(logs: "LastLines", raw: RawFiles, outcome: Outcome | None, ranks: list[RankFacts]) -> Failure | None:
    """Return who failed first."""
    failed = [node for node in outcome.exits if node.code != 0 or node.signal] if outcome else []
    if not failed:
        return None
    removed = next((node for node in failed if node.removed), None)
    own = [node for node in failed if not node.stopped] or failed
    launcher = removed or own[0]  # if no rank is known to have begun
    children = [] if removed else [child for node in failed[:MOST_CHILDREN] for child in logs.children(node.node)]
    if children:
        children = sorted(children, key=lambda child: child.time)[:MOST_CHILDREN]
        words = {rank: logs.last_lines(rank) for rank in {child.rank for child in children}}
        aborted = {facts.rank for facts in ranks if facts.status not in (None, "success")}
        first = min(children, key=lambda child: (_innocence(child, words[child.rank], aborted), child.time, child.rank))
        # All may refuse alike, and one speaks for those that left in silence.
        alike = [child for child in children if child.code == first.code > 0 and words[child.rank]]
        first = alike[0] if alike and not words[first.rank] else first
        killed = next((node for node in own if node.signal), None)
        if killed is None and _innocence(first, words[first.rank], aborted):
            # torchrun saw a rank end that had lost another one, and ended that one before it had an exit code.
            others = [rank for rank in range(raw.layout.world_size)[:MOST_CHILDREN] if rank not in words]
            if (rank := next(filter(logs.has_own_error, others), None)) is not None:
                return Failure(rank, raw.layout.node_of(rank), last_lines=logs.last_lines(rank))
            if left := _left(logs, raw.layout.node_of(first.rank), first.rank, words.keys()):
                return left
        if killed is None or not _innocence(first, words[first.rank], aborted):
            known = {number.value: number.name for number in signal.Signals}
            name = known.get(-first.code, f"signal {-first.code}") if first.code < 0 else None
            code = first.code if first.code >= 0 else None
            node = raw.layout.node_of(first.rank)
            lines = words[first.rank] or (logs.said_for(node, aborted) if code else [])
            return Failure(first.rank, node, code, name, lines)
        launcher = killed
    return Failure(None, launcher.node, launcher.code, launcher.signal, _shown(logs.launcher(launcher.node)))


def _left(logs: "LastLines", node: int, victim: int, failed: Collection[int]) -> Failure | None:
    """Return the rank that had ended with exit code 0 before others failed by losing it; None if there is none."""
    others, count = logs.others(node, failed)
    if not count:
        return None
    who, rank, lines = f"{count} of the ranks {listed(others)}", None, []
    if count == len(others):
        who, rank, lines = f"rank {listed(others)}", others[0], logs.last_lines(others[0])
    last = f", last line: {one_line(lines[-1], _LONGEST_LAST)}" if lines else ""
    cause = f"{who} had ended by itself (exit code 0{last}) while rank {victim} still ran"
    advice = "all ranks have to leave the loop together (broadcast the decision)"
    return Failure(rank, node, None if rank is None else 0, last_lines=lines, cause=f"{cause}: {advice}")


def _innocence(child: "Child", words: list[str], aborted: set[int]) -> int:
    """Return how likely a rank is only a victim: 1 if its last words are of a lost peer, 2 if it also ended in order.

    One that died by a signal or in silence is none.
    """
    is_victim = child.code > 0 and any(map(VICTIM.search, words))
    return is_victim + (is_victim and child.rank in aborted)


def _explain(failure: Failure, logs: "LastLines", outcome: Outcome, ranks: list[RankFacts]) -> None:
    """Fill in the cause and the hint: from outside to inside, from what is surest to what is least."""
    # What a launcher printed may name a rank of a node that reported no end.
    node = next((ended for ended in outcome.exits if ended.node == failure.node), NodeExit(failure.node))
    from_outside = [word for word in (outcome.stopped_because, node.why) if word]
    statements, printed = _statements(failure, logs, ranks)
    silent = failure.signal in _SILENT
    inside = [statement for statement in (statements[:-1] if silent else statements) if statement.cause]
    causes = [*from_outside, *([_NO_MEMORY] if node.out_of_memory else []), *(statement.cause for statement in inside)]
    failure.cause = one_line(causes[0], _LONGEST_CAUSE) if causes else None
    said = [*from_outside, *(line for statement in inside for line in statement.lines)]
    if not inside and not silent:
        said += failure.last_lines[-_UNEXPLAINED:]
    ended = [failure.signal or "", *([hints.OUT_OF_MEMORY] if node.out_of_memory else [])]
    failure.hint = hints.find(said, [] if silent else printed, ended)


def _statements(failure: Failure, logs: "LastLines", ranks: list[RankFacts]) -> tuple[list[Statement], list[str]]:
    """Return what the error file, the last event and the last lines say of a failure, and all of the last lines."""
    rank = failure.rank
    if rank is None:
        printed = logs.launcher(failure.node)
        return [cause.read(printed)], printed
    error = next((facts.error for facts in ranks if facts.rank == rank), None)
    event = cause.of_message((error or "").removeprefix("Refusal: "))
    tails = logs.printed(rank)
    # A rank that left in silence is spoken for by the first one of its node.
    said = next((lines for lines in tails if any(lines)), failure.last_lines)
    return [logs.error_file(rank), event, cause.read(said)], [line for lines in tails for line in lines]


class Child(NamedTuple):
    """A worker that failed, as its torchrun reports: its rank, its exit code or minus its signal, and when."""

    rank: int
    code: int
    time: str


class LastLines:
    """The ends of a run's raw files."""

    def __init__(self, folder: RunFolder, raw: RawFiles) -> None:
        self._folder, self._raw = folder, raw

    def children(self, node: int) -> list[Child]:
        """Read which workers a node's torchrun reports, as 2.3 to 2.11 print a ChildFailedError.

        (torch/distributed/elastic/multiprocessing/errors: lines `time`, `host`, `rank`, `exitcode`, one below the
        other.) Line by line, in time linear in the size of the log.
        """
        found: list[Child] = []
        fields: dict[str, str] = {}
        for line in self._folder.end_of(self._raw.agents.get(node), _REPORT_BYTES).splitlines():
            key, colon, value = line[:_LONGEST].partition(":")
            if not colon:
                continue
            key, value = key.strip(), value.strip()
            if key == "time":
                fields = {}
            fields[key] = value
            if key != "exitcode" or not {"time", "rank"} <= fields.keys():
                continue
            rank, code = _RANK.match(fields["rank"]), _CODE.match(value)
            if rank and code:
                found.append(Child(int(rank[1]), int(code[0]), fields["time"].partition(" ")[0]))
            fields = {}
        return found

    def others(self, node: int, failed: Collection[int]) -> tuple[list[int], int]:
        """Return the ranks of a node that did not fail, and how many of them had ended with exit code 0.

        torchrun reports each that failed, and says of each that is left that it sends it a signal
        (torch/distributed/elastic/multiprocessing/api.py).
        """
        others = [rank for rank in self._raw.layout.ranks_of(node) if rank not in failed]
        sent = set(_CLOSING.findall(self._folder.end_of(self._raw.agents.get(node), _REPORT_BYTES)))
        return others, len(others) - len(sent)

    def said_for(self, node: int, aborted: set[int]) -> list[str]:
        """Return what the first rank of a node said as it gave up: it speaks for all that refuse alike.

        torchrun may see another of them end first, and end this one before it has an exit code of its own.
        """
        speaker = self._raw.layout.first_rank(node)
        lines = self.last_lines(speaker) if speaker in aborted else []
        return [] if any(map(VICTIM.search, lines)) else lines

    def last_lines(self, rank: int) -> list[str]:
        """Return the end of a rank's stderr, or of its stdout where it said nothing there, fit to be shown."""
        return next((shown for lines in self.printed(rank) if (shown := _shown(lines))), [])

    def has_own_error(self, rank: int) -> bool:
        """Return whether a rank with a stderr of its own ended it with an exception, of no lost peer or signal."""
        lines = self.last_lines(rank) if self._raw.output(rank, "stderr") else []
        said = cause.read(lines)
        return bool(said.cause and lines[-1].endswith(said.cause)) and not any(map(_NOT_FIRST.search, lines))

    def printed(self, rank: int) -> list[list[str]]:
        """Return the last lines of a rank's stderr and of its stdout.

        A pod has one log for its launcher and all of its processes: what stands before the launcher's report.
        """
        if rank >= self._raw.layout.world_size:
            return []
        own = [self._raw.output(rank, stream) for stream in ("stderr", "stdout")]
        if any(own):
            return [self._tail(path) for path in own]
        return [self._tail(self._raw.agents.get(self._raw.layout.node_of(rank)), _REPORT)]

    def launcher(self, node: int) -> list[str]:
        """Return the last lines that a node's launcher printed."""
        return self._tail(self._raw.agents.get(node))

    def error_file(self, rank: int) -> Statement:
        """Return what torch's error file says of a rank's failure."""
        path = self._raw.output(rank, "error.json")
        try:
            data = files.read_file(path, cause.LARGEST_ERROR_FILE, below=self._folder.path) if path else b""
        except (OSError, ValueError):
            return Statement()
        return cause.read_error_file(data)

    def _tail(self, path: Path | None, until: re.Pattern[str] | None = None) -> list[str]:
        """Return the last lines of a file, or the last before a pattern; our own event lines are left out."""
        text = self._folder.end_of(path, _TAIL_BYTES)
        if until and (found := until.search(text)):
            text = text[: text.rfind("\n", 0, found.start()) + 1]
        return [line for line in map(str.rstrip, text.splitlines()) if not line.startswith(":::MLLOG")]


def _shown(lines: list[str]) -> list[str]:
    """Return the last of some lines, without empty ones, printable and of bounded length."""
    return [escaped(line, _LONGEST) for line in lines if line][-LINES_KEPT:]
