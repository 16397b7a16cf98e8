"""Bytes as they come -> whole lines of bounded length.

A process may print gigabytes without a newline. What is longer than `LONGEST_LINE` is cut, and counted; the raw files
keep it whole.
"""

from __future__ import annotations

LONGEST_LINE = 65_536
"""Bytes of one line; an event line has at most 4 KB."""


class BoundedLines:
    """Splits blocks of bytes into lines without their newlines."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self.cut = 0
        """How many lines were cut so far."""
        self._longest = longest
        self._begun = b""
        self._is_cut = False

    def feed(self, block: bytes) -> list[bytes]:
        """Return the lines that this block completes."""
        *ends, begun = block.split(b"\n")
        lines = []
        for end in ends:
            self._extend(end)
            lines.append(self._begun)
            self._begun, self._is_cut = b"", False
        self._extend(begun)
        return lines

    def finish(self) -> list[bytes]:
        """Return the last line, if it has no newline."""
        return self.feed(b"\n") if self._begun else []

    def _extend(self, part: bytes) -> None:
        room = self._longest - len(self._begun)
        if len(part) <= room:
            self._begun += part
            return
        self._begun += part[:room]
        self.cut += not self._is_cut
        self._is_cut = True


def cut_note(place: str, cut: int) -> str:
    """Say that lines of a process were cut in the live view."""
    lines = f"{cut} line{'s' * (cut > 1)} longer than {LONGEST_LINE:,} bytes"
    return f"{place} printed {lines}: only the beginning was looked at, the raw file has all of it"
