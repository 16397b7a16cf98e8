"""The last lines of a log: the dates of a job script, work that was not done, and what follows a failure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runner.logs import origin
from runner.logs.dates import WINDOW, Date, dates
from runner.logs.lines import Block, text_of

_MOST_AFTER = 20
"""Lines after a failure that are not of it, and with which it may still be the end of the run."""
_COUNT = r"(?P<{0}>\d[\d.,]{{0,19}}[kKMGT]?)"
_OF = rf"{_COUNT.format('done')}i?B?/ {{0,9}}{_COUNT.format('total')}"
_BARS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\d{{1,3}}%\|[^|]{{0,300}}\|\s{{0,3}}{_OF}i?B? \[",  # 67%|######   | 336/504 [01:02<00:31, ...
        rf"{_OF} \[[=>. ]{{5,200}}\]",  # 336/504 [======>.....] - ETA: 1:03
        rf"{_OF} {{1,4}}[━╸╺]",  # 336/504 ━━━━━━━━━━━━ 3s 12ms/step
        rf"[━╸╺] {{1,4}}{_OF} ",  # ━━━━━━━━╺━━━━ 336/504 0:01:02 • 0:00:31
        rf"\[ {{0,9}}{_OF} [\d:]{{4,9}} < ",  # [336/504 01:02 < 00:31, 5.4 it/s, Epoch 2/3]
    )
)
_ETA = re.compile(
    r"\b(?:eta|ETA)[:= ]{1,3}(?P<left>(?:\d{1,4} days?, )?\d{1,4}:\d\d(?::\d\d)?\b|(?:\d{1,4}[dhm] ?){0,3}\d{1,6}s\b)"
)
_OF_A_FAILURE = re.compile(
    r"^\s{0,8}$|^[\W_]{4,}|^ {2}|Traceback|Error|ERROR|[Ee]xception|[Ff]ail|FAIL|\b[Kk]ill|[Aa]bort|SIG[A-Z]{3}"
    r"|[Ss]ignal|[Tt]erminat|[Ee]xit|[Ww]arn|WARN|[Cc]ancel|CANCEL|wandb:|NCCL|UCX|[Tt]orch[./]distributed|slurm|srun"
    r"|mpirun|MPI|[Rr]ank\b|[Hh]ost\b|core dumped|leaked|[Rr]oot [Cc]ause|^\[?\d?\]?\s?[#$>]|^\S{1,60}[$#%>] ?"
    r"|Root Cause|^(?:time|exitcode)\b"
)
"""What stands in the lines that launchers, other processes and the shell write after a failure."""
_REAL = re.compile(r"^real\s{1,8}\d{1,6}m[\d.,]{1,9}s")


class Tail:
    """The last bytes of a log."""

    def __init__(self) -> None:
        self._data = b""
        self._line = 1
        """The number of the line after the data."""

    def add(self, block: Block) -> None:
        """Take the next block."""
        data = self._data + block.data if len(block.data) < WINDOW else block.data
        self._data = data[-WINDOW:]
        self._line = block.line + block.data.count(b"\n")

    @property
    def dates(self) -> list[Date]:
        """Return the dates in the last lines."""
        return dates(text_of(self._data), self._line - self._data.count(b"\n"))

    @property
    def unfinished(self) -> int:
        """Return the number of the last line if it shows work that was not done: 336/504, or an ETA; 0 if not."""
        line, text = next(self._states(), (0, ""))
        bars = [found for bar in _BARS for found in bar.finditer(text)]
        left = _ETA.search(text)
        is_left = left is not None and any(digit in left["left"] for digit in "123456789")
        return line if is_left or (bars and bars[-1]["done"] != bars[-1]["total"]) else 0

    def goes_on_after(self, line: int) -> bool:
        """Return whether more follows on a failure than what its own lines, launchers and the shell say."""
        if line < self._line - self._data.count(b"\n"):
            return True
        after = 0
        for number, text in self._states():
            if number <= line or after > _MOST_AFTER:
                break
            if _REAL.match(text):
                return True
            words = origin.split(text)[1]
            indent = "  " if text[: -len(words)].endswith("  ") else ""
            after += not (_OF_A_FAILURE.search(indent + words) or any(bar.search(text) for bar in _BARS))
        return after > _MOST_AFTER

    def _states(self) -> Iterator[tuple[int, str]]:
        """Yield what was written last on each line, from the last line on; blank ones are left out."""
        number = self._line
        for line in reversed(self._data.split(b"\n")):
            if text := text_of(next((state for state in reversed(line.split(b"\r")) if state.strip()), b"")):
                yield number, text[:1_000]
            number -= 1
