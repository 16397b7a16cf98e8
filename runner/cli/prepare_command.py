"""`runner prepare`."""

import subprocess
from contextlib import suppress
from typing import Annotated, Optional

import typer

from runner.cli.options import project_root, show_rows
from runner.definitions import data as of_families

SETTINGS = {"allow_interspersed_args": False}
"""All words after the family go to the family's program, even `--help`."""


def prepare(
    data: Annotated[
        Optional[str], typer.Argument(metavar="DATA", help="A family with data; by default, list them.")
    ] = None,
    words: Annotated[
        Optional[list[str]], typer.Argument(metavar="WORDS", help="Arguments of its program, for example --help.")
    ] = None,
) -> None:
    """Fetch and check the data of experiments, once.

    The family's program, experiments/<family>/prepare.py, does it. Runs never download anything.
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
    """Wait for a program that got the Ctrl-C too. If it does not end, terminate it. If it still does not, kill it."""
    for seconds, end in ((1, process.terminate), (10, process.kill)):
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            return
        end()
