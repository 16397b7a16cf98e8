"""`runner prepare`."""

import subprocess
from contextlib import suppress
from typing import Annotated, Optional

import typer

from runner.cli.options import project_root, show_rows
from runner.definitions import data as of_families

SETTINGS = {"allow_interspersed_args": False}
"""All words behind the name are for the family's program, `--help` too."""


def prepare(
    data: Annotated[Optional[str], typer.Argument(metavar="DATA", help="What to prepare; without it, a list.")] = None,
    words: Annotated[
        Optional[list[str]], typer.Argument(metavar="WORDS", help="For the family's own program, for example --help.")
    ] = None,
) -> None:
    """Fetch and check the data of experiments, once.

    The family's own program does it, experiments/<family>/prepare.py. No run ever downloads anything.
    """
    root = project_root()
    if data is None:
        rows: list[tuple[str, ...]] = [(name, f"runner prepare {name} --help") for name in of_families.families(root)]
        show_rows(rows)
        return
    command = of_families.prepare_command(root, data, words or [])
    with subprocess.Popen(command, env=of_families.environment(root)) as process:
        try:
            code = process.wait()
        except BaseException:
            _end(process)
            raise
    raise typer.Exit(code if code >= 0 else 128 - code)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a program that has got our Ctrl-C too; end one that has not, or that stays."""
    for seconds, end in ((1, process.terminate), (10, process.kill)):
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            return
        end()
