"""`runner recover`."""

from pathlib import Path
from typing import Annotated

import typer

from runner.cli.printing import say, show
from runner.core.errors import RunError


def recover(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="The folder of the records.")] = Path("results"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done; change nothing.")] = False,
) -> None:
    """Finish the runs whose runner was killed.

    Their processes, containers and pods are ended, and their records are made from the output. Runs whose runner is
    alive are left alone. Hosts, engines and clusters that a record names are used only if you started the run on this
    machine. Exit code 1: a run is left unfinished, and its runner is not known to be alive.
    """
    from runner.execution.recover import LEFT, RUNS
    from runner.execution.recover import recover as recovered

    left = count = 0
    for run in recovered(results, dry_run=dry_run):
        show(f"{run.path}: {run.what}: {run.text}")
        count += run.what != RUNS
        left += run.what == LEFT
    if not count:
        say(f"{results}: every run is finished, or its runner is alive")
    if left:
        raise typer.Exit(RunError.exit_code)
