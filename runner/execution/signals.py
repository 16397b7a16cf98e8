"""Ctrl-C, SIGTERM and SIGHUP: they interrupt what may be interrupted, and are held back everywhere else."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from runner.core.errors import Interrupted


class Interrupts:
    """Whether a signal has asked for the end, and where it may raise KeyboardInterrupt."""

    def __init__(self) -> None:
        self.asked = False
        self._raises = False
        self._taken = False
        """Whether KeyboardInterrupt was raised: a further signal does not raise it again in the midst of the end."""

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Raise KeyboardInterrupt at the first signal, also at one that came before; further signals are held back."""
        try:
            self._raises = True
            self.raise_if_asked()
            yield
        finally:
            self._raises = False

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Raise Interrupted at a signal, where nothing has to be ended."""
        try:
            with self.raising():
                yield
        except KeyboardInterrupt:
            raise Interrupted from None

    def take(self, _number: int, _frame: FrameType | None) -> None:
        """Remember a signal; the handler of all of them."""
        self.asked = True
        if not self._taken:
            self.raise_if_asked()

    def raise_if_asked(self) -> None:
        """Raise KeyboardInterrupt if a signal has come, also once more: Python drops it in hooks of fork and in `del`.

        Called now and then inside of `raising`.
        """
        if self.asked and self._raises:
            self._taken = True
            raise KeyboardInterrupt


@contextmanager
def taken() -> Iterator[Interrupts]:
    """Take the signals that end a command; SIGHUP only if it is not ignored, which `nohup` asks for."""
    interrupts = Interrupts()
    numbers = [signal.SIGINT, signal.SIGTERM]  # SIGINT also if it is ignored: a shell does so for background jobs
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    shown = sys.unraisablehook

    def show(what: "sys.UnraisableHookArgs") -> None:
        if what.exc_type is not KeyboardInterrupt:  # which is raised again, so nobody needs to see its traceback
            shown(what)

    sys.unraisablehook = show
    before = {number: signal.signal(number, interrupts.take) for number in numbers}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.unraisablehook = shown
