"""What a terminal shows while `runner init` tries a script: the same live line as that of a run."""

from __future__ import annotations

from pathlib import Path

from runner.cli.progress import Progress
from runner.cli.terminal import Screen
from runner.core import clock
from runner.definitions.plan import Run
from runner.records.schema import Record


class TrialScreen(Screen):
    """Shows the progress of one run, and leaves it to the caller to say how it ended."""

    def begin(self, number: int, total: int, run: Run, _folder: Path) -> None:
        """Begin to show the run."""
        self._progress = Progress(number, total, run, [])
        self._said = clock.monotonic()

    def stopping(self, _why: str) -> None:
        """Say nothing: that the time is up is what was announced."""

    def end(self, _run: Run, _record: Record, _folder: Path) -> None:
        """Stop to show it."""
        self._progress = None
