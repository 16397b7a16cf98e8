"""Turn an exception of a command into a message and an exit code."""

import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TextIO

import typer

from runner import __version__
from runner.cli.printing import say
from runner.core import clock
from runner.core.errors import EXIT_DEFECT, EXIT_INTERRUPTED, Interrupted, KitError, RequestError
from runner.core.secrets import mask_text
from runner.core.text import one_line

# Depending on its version, typer uses click or a copy of click. This is the base class of usage errors in both.
_USAGE_ERROR: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
_OF_A_PATH = (errno.EACCES, errno.ENAMETOOLONG)
"""Errors in a path that the user names, which are no defects of the runner."""
AT_ONCE_SECONDS = 1.0
"""A second signal ends the command at once, but is ignored within this time: some senders send two signals together."""


class _Ended(BaseException):
    """Raised when a signal arrives. Typer would print an empty line for a KeyboardInterrupt."""


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise Interrupted after Ctrl-C, SIGTERM or SIGHUP, so that temporary files are removed.

    Commands that start processes handle these signals themselves.
    """
    first: list[float] = []
    shown = sys.unraisablehook

    def take(_number: int, _frame: object) -> None:
        if not first:
            first.append(clock.monotonic())
            raise _Ended
        if clock.monotonic() > first[0] + AT_ONCE_SECONDS:
            os.write(2, b"interrupted\n")
            os._exit(EXIT_INTERRUPTED)

    before = {
        number: signal.signal(number, take)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) != signal.SIG_IGN
    }
    sys.unraisablehook = lambda what: None if first else shown(what)
    try:
        yield
    except BaseException:
        if not first:
            raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.unraisablehook = shown
    if first:  # even if Python dropped the exception, as in `__del__`, or a library replaced it
        raise Interrupted


def explain(error: BaseException) -> int:
    """Print an error on one line and return the exit code. A defect of the runner also leaves a log to send."""
    if isinstance(error, BrokenPipeError):
        _drop(sys.stdout)
        return 0
    if isinstance(error, typer.Exit):
        return error.exit_code
    if isinstance(error, typer.Abort | KeyboardInterrupt | Interrupted):
        say("interrupted")
        return EXIT_INTERRUPTED
    if isinstance(error, _USAGE_ERROR):
        say(f"error: {_explain_usage(error)}")
        return RequestError.exit_code
    if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.filename is None:
        _drop(sys.stdout)
        error = RequestError(f"the output could not be written: {error.strerror}")
    if isinstance(error, OSError) and error.errno in _OF_A_PATH and error.filename is not None:
        error = RequestError(f"{one_line(error.filename, 500)}: {error.strerror}")
    if isinstance(error, KitError):
        for line in str(error).splitlines():
            say(f"error: {line}")
        return error.exit_code
    say(mask_text(f"error: a defect in the runner, {type(error).__name__}: {error}; {_keep(error)}"))
    return EXIT_DEFECT


def leave(code: int) -> NoReturn:
    """Exit, even if the reader of the output has gone or the disk is full."""
    try:
        sys.stdout.flush()
    except OSError as error:
        _drop(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            say(f"error: the output could not be written: {error.strerror}")
            code = code or 1
    try:
        if sys.stderr:  # None if the caller closed it
            sys.stderr.flush()
    except OSError:  # Python would flush again, and exit with 120
        _drop(sys.stderr)
    sys.exit(code)


def _drop(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _explain_usage(error: Any) -> str:
    context = getattr(error, "ctx", None)
    words = f"{error.format_message().rstrip('.')}; see {context.command_path if context else 'runner'} --help"
    option = getattr(error, "option_name", None)
    script = next((word for word in sys.argv[2:] if word.endswith(".py")), None)
    if option and script and sys.argv[1] == "run":
        words += f"; the arguments of {script} itself come last, after two hyphens: -- {option}"
    return words


def _keep(error: BaseException) -> str:
    import tempfile
    import traceback

    try:
        with tempfile.NamedTemporaryFile("w", prefix="runner-defect-", suffix=".log", delete=False) as log:
            lines = "".join(traceback.format_exception(error))
            log.write(mask_text(f"runner {__version__}, Python {sys.version}\n{sys.argv!r}\n\n{lines}"))
    except OSError as unwritable:
        return f"its log could not be written: {unwritable.strerror}"
    return f"please send {log.name}"
