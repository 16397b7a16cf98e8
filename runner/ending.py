"""How a command ends: whatever it raised becomes a line on the screen and an exit code."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from typing import Any, NoReturn

import typer

from runner import __version__
from runner.errors import EXIT_DEFECT, EXIT_INTERRUPTED, KitError, RequestError, one_line

# typer has its own copy of click or uses the real one, depending on its version: this is the base of both.
_USAGE_ERROR: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def explain(error: Exception) -> int:
    """Say an error in one line and choose the exit code; a defect of ours also leaves a log to send."""
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if isinstance(error, typer.Exit):
        return error.exit_code
    if isinstance(error, typer.Abort):
        typer.echo("interrupted", err=True)
        return EXIT_INTERRUPTED
    if isinstance(error, _USAGE_ERROR):
        typer.echo(f"error: {one_line(error.format_message()).rstrip('.')}; see runner --help", err=True)
        return RequestError.exit_code
    if isinstance(error, KitError):
        typer.echo(f"error: {error}", err=True)
        return error.exit_code
    with tempfile.NamedTemporaryFile("w", prefix="runner-defect-", suffix=".log", delete=False) as log:
        log.write(f"runner {__version__}, Python {sys.version}\n{sys.argv!r}\n\n")
        traceback.print_exception(error, file=log)
    typer.echo(f"error: a defect of ours, {type(error).__name__}: {error}; please send {log.name}", err=True)
    return EXIT_DEFECT


def leave(code: int) -> NoReturn:
    """Exit, also where the reader of the output has gone."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
