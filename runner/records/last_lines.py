"""What the launchers and the processes of a run printed last, and which workers torchrun reports as failed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from runner.core.text import escaped
from runner.records import cause
from runner.records.folder import RunFolder
from runner.records.raw_files import RawFiles
from trainkit import files

LINES_KEPT = 20
_LONGEST = 500
_TAIL_BYTES = 16_384
_REPORT_BYTES = 4_000_000
# With these words torchrun begins to report a worker that failed.
_REPORT = re.compile(r"Sending process \d+ closing signal|failed \(exitcode: -?\d+\)")
# Searched in time linear in the line's length: nothing unbounded stands before a part that may fail.
_VICTIM = re.compile(
    r"connection (closed|reset|refused)|broken pipe|connection was (closed|reset)|peer [^\n]{0,100}(closed|lost)|"
    r"remote process exited|socket timeout|recvvalue failed|\]:\d{1,5}: [^\n]{0,100}(reset|closed)|distnetworkerror|"
    r"watchdog|application timeout caused pair closure",
    re.IGNORECASE,
)
_RANK = re.compile(r"(\d{1,9})\s?\(local_rank:")
_CODE = re.compile(r"-?\d{1,9}")


@dataclass(frozen=True)
class Child:
    """A worker that failed, as its torchrun reports: its rank, its exit code or minus its signal, and when."""

    rank: int
    code: int
    time: str


def speaks_of_a_peer(lines: list[str]) -> bool:
    """Whether lines are about another rank that was lost, so that the one that printed them may be only a victim."""
    return any(_VICTIM.search(line) for line in lines)


class Logs:
    """The ends of a run's raw files."""

    def __init__(self, folder: RunFolder, raw: RawFiles) -> None:
        self._below, self._raw = folder.path, raw

    def children(self, node: int) -> list[Child]:
        """Read which workers a node's torchrun reports, as 2.3 to 2.11 print a ChildFailedError.

        (torch/distributed/elastic/multiprocessing/errors: lines `time`, `host`, `rank`, `exitcode`, one below the
        other.) Line by line, in time linear in the size of the log.
        """
        found: list[Child] = []
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
                found.append(Child(int(rank[1]), int(code[0]), fields["time"].partition(" ")[0]))
            fields = {}
        return found

    def said_for(self, node: int, aborted: set[int]) -> list[str]:
        """Return what the first rank of a node said as it gave up: it speaks for all that refuse alike.

        torchrun may see another of them end first, and end this one before it has an exit code of its own.
        """
        speaker = self._raw.places.first_ranks[node]
        lines = self.last_lines(speaker) if speaker in aborted else []
        return [] if speaks_of_a_peer(lines) else lines

    def last_lines(self, rank: int) -> list[str]:
        """Return the end of a rank's stderr, or of its stdout where it said nothing there, fit to be shown."""
        return next((shown for lines in self.printed(rank) if (shown := _shown(lines))), [])

    def launcher_lines(self, node: int) -> list[str]:
        """Return the end of what a node's launcher printed, fit to be shown."""
        return _shown(self.launcher(node))

    def printed(self, rank: int) -> list[list[str]]:
        """Return the last lines of a rank's stderr and of its stdout.

        A pod has one log for its launcher and all of its processes: what stands before the launcher's report.
        """
        if rank >= self._raw.places.first_ranks[-1]:
            return []
        own = [self._raw.output(rank, stream) for stream in ("stderr", "stdout")]
        if any(own):
            return [self._tail(path) for path in own]
        return [self._tail(self._raw.agents.get(self._raw.places.node_of(rank)), _REPORT)]

    def launcher(self, node: int) -> list[str]:
        """Return the last lines that a node's launcher printed."""
        return self._tail(self._raw.agents.get(node))

    def error_file(self, rank: int) -> cause.Said:
        """Return what torch's error file says of a rank's failure."""
        path = self._raw.output(rank, "error.json")
        try:
            data = files.read_file(path, cause.LARGEST_ERROR_FILE, below=self._below) if path else b""
        except (OSError, ValueError):
            return cause.Said()
        return cause.read_error_file(data)

    def _tail(self, path: Path | None, until: re.Pattern[str] | None = None) -> list[str]:
        """Return the last lines of a file, or the last before a pattern; our own event lines are left out."""
        text = self._end(path, _TAIL_BYTES)
        if until and (found := until.search(text)):
            text = text[: text.rfind("\n", 0, found.start()) + 1]
        return [line for line in map(str.rstrip, text.splitlines()) if not line.startswith(":::MLLOG")]

    def _end(self, path: Path | None, most: int) -> str:
        if path is None:
            return ""
        try:
            with files.open_file(path, self._below) as file:
                file.seek(max(0, file.seek(0, 2) - most))
                return file.read(most).decode("utf-8", "replace")
        except OSError:
            return ""


def _shown(lines: list[str]) -> list[str]:
    """Return the last of some lines, without empty ones, printable and of bounded length."""
    return [escaped(line, _LONGEST) for line in lines if line][-LINES_KEPT:]
