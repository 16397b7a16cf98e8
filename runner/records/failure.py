"""Who failed first: read from what torchrun's agents say and from what the ranks printed last.

When one rank dies, the others fail moments later because it is gone, and torchrun, which looks ten times a second,
may name any of them. So a rank whose last words are about a lost peer is taken for a victim where another is not.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runner.core.text import escaped
from runner.records.schema import Failure, NodeExit, Outcome, RankFacts
from trainkit import files

if TYPE_CHECKING:
    from pathlib import Path

    from runner.records.folder import RunFolder
    from runner.records.raw_files import RawFiles

LINES_KEPT = 12
MOST_CHILDREN = 1_000
_LONGEST = 500
_TAIL_BYTES = 16_384
_REPORT_BYTES = 4_000_000
# With these words torchrun begins to report a worker that failed.
_REPORT = re.compile(r"Sending process \d+ closing signal|failed \(exitcode: -?\d+\)")
# Each part is searched in time linear in the line's length: nothing unbounded stands before a part that may fail.
_VICTIM = re.compile(
    r"connection (closed|reset|refused)|broken pipe|connection was (closed|reset)|peer [^\n]{0,100}(closed|lost)|"
    r"remote process exited|socket timeout|recvvalue failed|\]:\d{1,5}: [^\n]{0,100}(reset|closed)|distnetworkerror|"
    r"watchdog|application timeout caused pair closure",
    re.IGNORECASE,
)
_RANK = re.compile(r"(\d{1,9})\s?\(local_rank:")
_CODE = re.compile(r"-?\d{1,9}")


@dataclass(frozen=True)
class _Child:
    rank: int
    code: int
    time: str


def first_failure(folder: RunFolder, raw: RawFiles, outcome: Outcome | None, ranks: list[RankFacts]) -> Failure | None:
    """Return the first failing rank, or the node whose launcher failed, or None where all ended well."""
    failed = [node for node in outcome.exits if node.code != 0 or node.signal] if outcome else []
    if not failed:
        return None
    logs = _Logs(folder, raw)
    if removed := next((node for node in failed if node.removed), None):
        return logs.of_launcher(removed)
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
            return logs.of_launcher(lost[0])
        name = _signal_name(-first.code) if first.code < 0 else None
        code = first.code if first.code >= 0 else None
        node = raw.places.node_of(first.rank)
        lines = words[first.rank] or (logs.said_for(node, aborted) if code else [])
        return Failure(first.rank, node, code, name, lines)
    return logs.of_launcher(own[0])


def _speaker(first: _Child, children: list[_Child], words: dict[int, list[str]]) -> _Child:
    """Return the rank that says why, if the first one left in silence: all may refuse alike, and one speaks for all."""
    alike = [child for child in children if child.code == first.code > 0 and words[child.rank]]
    return first if words[first.rank] or not alike else alike[0]


def _innocence(child: _Child, words: list[str], aborted: set[int]) -> int:
    """Say how likely a rank is only a victim: 1 if its last words are of a lost peer, 2 if it also ended in order.

    One that died by a signal or in silence is none.
    """
    speaks_of_a_peer = child.code > 0 and any(_VICTIM.search(line) for line in words)
    return speaks_of_a_peer + (speaks_of_a_peer and child.rank in aborted)


class _Logs:
    """The last lines of a run's raw files."""

    def __init__(self, folder: RunFolder, raw: RawFiles) -> None:
        self._below, self._raw = folder.path, raw

    def of_launcher(self, node: NodeExit) -> Failure:
        """Return a failure that no rank is known to have begun."""
        lines = self._tail(self._raw.agents.get(node.node))
        return Failure(None, node.node, node.code, node.signal, lines)

    def children(self, node: int) -> list[_Child]:
        """Read which workers a node's torchrun reports, as 2.3 to 2.11 print a ChildFailedError.

        (torch/distributed/elastic/multiprocessing/errors: lines `time`, `host`, `rank`, `exitcode`, one below the
        other.) Line by line, in time linear in the size of the log.
        """
        found: list[_Child] = []
        fields: dict[str, str] = {}
        for line in self._end(self._raw.agents.get(node), _REPORT_BYTES).splitlines():
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
                found.append(_Child(int(rank[1]), int(code[0]), fields["time"].partition(" ")[0]))
            fields = {}
        return found

    def said_for(self, node: int, aborted: set[int]) -> list[str]:
        """Return what the first rank of a node said as it gave up: it speaks for all that refuse alike.

        torchrun may see another of them end first, and end this one before it has an exit code of its own.
        """
        speaker = self._raw.places.first_ranks[node]
        lines = self.last_lines(speaker) if speaker in aborted else []
        return [] if any(_VICTIM.search(line) for line in lines) else lines

    def last_lines(self, rank: int) -> list[str]:
        """Return the end of a rank's stderr, or of its stdout where it said nothing there."""
        if rank >= self._raw.places.first_ranks[-1]:
            return []
        own = [self._raw.output(rank, stream) for stream in ("stderr", "stdout")]
        if not any(own):  # a pod has one log for its launcher and all of its processes
            return self._tail(self._raw.agents.get(self._raw.places.node_of(rank)), _REPORT)
        return next((lines for path in own if (lines := self._tail(path))), [])

    def _tail(self, path: Path | None, until: re.Pattern[str] | None = None) -> list[str]:
        """Return the last lines of a file, or the last before a pattern; our own event lines are left out."""
        text = self._end(path, _TAIL_BYTES)
        if until and (found := until.search(text)):
            text = text[: text.rfind("\n", 0, found.start()) + 1]
        lines = [line.rstrip() for line in text.splitlines()]
        kept = [line for line in lines if line and not line.startswith(":::MLLOG")][-LINES_KEPT:]
        return [escaped(line, _LONGEST) for line in kept]

    def _end(self, path: Path | None, most: int) -> str:
        if path is None:
            return ""
        try:
            with files.open_file(path, self._below) as file:
                file.seek(max(0, file.seek(0, 2) - most))
                return file.read(most).decode("utf-8", "replace")
        except OSError:
            return ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
