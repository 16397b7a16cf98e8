"""`runner collect`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runner.cli.lines import show
from runner.cli.options import Results, With, project_root
from runner.core.errors import RequestError, RunError


def collect(
    path: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run's folder, results/<experiment>/<run>, or a file of k8s/.")
    ],
    results: Results = Path("results"),
    with_: With = None,
) -> None:
    """Make the record of a run, or of a job applied by hand.

    From a folder its raw files are parsed again; for a run whose runner was killed, it is the first record. From a
    manifest the pods of its job are read in the cluster, to their end if they still run; it takes the options of
    target kubernetes.
    """
    if path.suffix in (".yaml", ".yml") and not path.is_dir():
        _collect_jobs(path, results, with_ or [])
        return
    if with_:
        msg = f"--with {with_[0]}: is for a file of k8s/; a run's folder takes no options"
        raise RequestError(msg)
    from runner.records.finalize import reparse

    record = reparse(path)
    show(f"{path}: {record.status}" + (f": {record.reason}" if record.reason else ""))


def _collect_jobs(path: Path, results: Path, words: list[str]) -> None:
    from runner import targets
    from runner.cli.terminal import Screen
    from runner.execution import signals
    from runner.execution.attach import attach

    target = targets.load("kubernetes", words)
    with signals.taken() as interrupts, Screen() as screen:
        found = attach(path, project_root(), results, target, screen, interrupts)
    if any(record.status != "completed" for record in found):
        raise typer.Exit(RunError.exit_code)
