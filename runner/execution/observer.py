"""Define how execution reports progress, without knowledge of the terminal."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol, cast

from runner.definitions.plan import Run
from runner.records.events import Event
from runner.records.schema import Record


class Observer(Protocol):
    """Receiver of progress while runs are carried out."""

    def begin(self, number: int, total: int, run: Run, folder: Path) -> None:
        """Report that run `number` of `total` begins; numbers start at 1."""

    def event(self, event: Event) -> None:
        """Report an event of the current run."""

    def printed(self, line: bytes) -> None:
        """Report the latest line of rank 0 that is not an event, at most a few times a second."""

    def note(self, text: str) -> None:
        """Report a message about the command as a whole."""

    def stopping(self, why: str) -> None:
        """Report that the run is being stopped: `interrupted`, `timed_out`, `hung` or an error message."""

    def end(self, run: Run, record: Record, folder: Path) -> None:
        """Report the record of a run that has ended."""

    def left_out(self, run: Run) -> None:
        """Report that a repeat is skipped because an earlier run of its cell failed."""


def guarded(observer: Observer) -> Observer:
    """Wrap an observer so that its exceptions do not end a run. Only the first exception is reported, as a note."""
    return cast("Observer", _Guarded(observer))


class _Guarded:
    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._noted = False

    def __getattr__(self, name: str) -> Callable[..., None]:
        return partial(self._call, name)

    def _call(self, name: str, *values: object) -> None:
        try:
            getattr(self._observer, name)(*values)
        except Exception as error:  # noqa: BLE001 - the run matters more than its display
            if not self._noted:
                self._noted = True
                self._call("note", f"progress could not be shown: {type(error).__name__}: {error}")
