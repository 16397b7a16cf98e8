"""Who is shown what happens. Execution knows this protocol; only the command line knows a terminal."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol, cast

from runner.definitions.plan import Run
from runner.records.events import Event
from runner.records.schema import Record


class Observer(Protocol):
    """Receives what happens while runs are carried out."""

    def begin(self, number: int, total: int, run: Run, folder: Path) -> None:
        """Receive that a run begins, the first of `total` with number 1."""

    def event(self, event: Event) -> None:
        """Receive an event of the run in progress."""

    def printed(self, line: bytes) -> None:
        """Receive the latest line of rank 0 that is no event, a few times a second at most."""

    def note(self, text: str) -> None:
        """Receive something to say about the whole."""

    def stopping(self, why: str) -> None:
        """Receive that the run is being ended: `interrupted`, `timed_out`, or what went wrong."""

    def end(self, run: Run, record: Record, folder: Path) -> None:
        """Receive how a run ended."""

    def left_out(self, run: Run) -> None:
        """Receive that a further repeat of a failed cell is not run."""


def guarded(observer: Observer) -> Observer:
    """Return an observer whose defects end no run: the first one becomes a note, and the others are passed over."""
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
        except Exception as error:  # noqa: BLE001 - whatever it is, the run matters more than its picture
            if not self._noted:
                self._noted = True
                self._call("note", f"something could not be shown: {type(error).__name__}: {error}")
