"""Handle Ctrl-C, SIGTERM and SIGHUP. A signal interrupts only code that allows this, and is deferred in other code."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from runner.core.errors import Interrupted


class Interrupts:
    """Whether a signal has arrived, and whether it may raise KeyboardInterrupt now."""

    def __init__(self) -> None:
        self.asked = False
        self._raises = False
        self._taken = False
        """Whether KeyboardInterrupt was raised: a second signal must not interrupt the clean-up."""

    @contextmanager
    def raising(self) -> Iterator[None]:
        """Raise KeyboardInterrupt in the block at the first signal, or at once if a signal came before.

        Further signals are deferred.
        """
        try:
            self._raises = True
            self.raise_if_asked()
            yield
        finally:
            self._raises = False

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Raise Interrupted at a signal in the block. Use this only for a block that needs no clean-up."""
        try:
            with self.raising():
                yield
        except KeyboardInterrupt:
            raise Interrupted from None

    def take(self, _number: int, _frame: FrameType | None) -> None:
        """Note that a signal has arrived, and raise KeyboardInterrupt if that is allowed now."""
        self.asked = True
        if not self._taken:
            self.raise_if_asked()

    def raise_if_asked(self) -> None:
        """Raise KeyboardInterrupt inside `raising` if a signal has arrived.

        Call this regularly, since Python drops exceptions that signal handlers raise in fork hooks and in `__del__`.
        """
        if self.asked and self._raises:
            self._taken = True
            raise KeyboardInterrupt


@contextmanager
def taken() -> Iterator[Interrupts]:
    """Handle SIGINT, SIGTERM and SIGHUP in the block. Under `nohup`, SIGHUP stays ignored."""
    interrupts = Interrupts()
    numbers = [signal.SIGINT, signal.SIGTERM]  # SIGINT even if ignored: shells ignore it for background jobs
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    shown = sys.unraisablehook

    def show(what: "sys.UnraisableHookArgs") -> None:
        if what.exc_type is not KeyboardInterrupt:  # `raise_if_asked` raises it again
            shown(what)

    sys.unraisablehook = show
    before = {number: signal.signal(number, interrupts.take) for number in numbers}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.unraisablehook = shown
