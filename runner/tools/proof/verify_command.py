"""`runner verify`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from runner.cli.printing import say, show, show_document
from runner.core.errors import RunError
from runner.core.text import one_line
from runner.tools.proof.integrity import LEVELS, Verdict, runs_at

MOST_SHOWN = 20
"""The most faults shown for one run. `--json` has all faults."""


def verify(
    run: Annotated[
        Path, typer.Argument(metavar="RUN|RESULTS", help="The folder of a run or of many, or an archive.")
    ] = Path("results"),
    level: Annotated[int, typer.Option(min=0, max=1, help="0: check the files; 1: also parse them again.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Verify a record or an archive.

    It shows the highest level that the record reaches, and why it does not reach a higher one. Level 0: the record is
    whole. Level 1: the run's output, parsed again, gives the same record. `runner reproduce` checks level 2. Exit code
    0: every run reaches the level asked for; 1: one does not.
    """
    from runner.records.unpacking import opened
    from runner.tools.proof.integrity import verify
    from trainkit.files import is_file

    notes: list[str] = []
    if not is_file(run):
        verdicts = [verify(path, level) for path in runs_at(run, notes)]
    else:
        with opened(run) as kit:
            verdicts = [Verdict(one_line(run), stopped=kit.faults)]
            if not kit.faults:
                verdicts = [verify(path, level) for path in runs_at(kit.results, notes)]
            for verdict in verdicts:
                verdict.run = verdict.run.replace(f"{one_line(kit.results)}/", f"{one_line(run)}: ")
    for note in notes:
        say(f"note: {note}")
    finish(verdicts, level, {"notes": notes} if json else None)


def finish(verdicts: list[Verdict], level: int, document: dict[str, Any] | None) -> None:
    """Show verdicts. Exit with code 1 if a run is below the level.

    If a JSON document is given, print it with the verdicts added.
    """
    if document is None:
        _show(verdicts, level)
    else:
        from runner.report.formats import json

        runs = [asdict(verdict) for verdict in verdicts]
        show_document(json({"level": level, "runs": runs, **document}) + "\n")
    if any(verdict.level is None or verdict.level < level for verdict in verdicts):
        raise typer.Exit(RunError.exit_code)


def _show(verdicts: list[Verdict], level: int) -> None:
    alone = len(verdicts) == 1
    for verdict in verdicts:
        reached = "no level" if verdict.level is None else f"level {verdict.level}: {LEVELS[verdict.level]}"
        above = 0 if verdict.level is None else verdict.level + 1
        show(f"{verdict.run}: {reached}")
        for fault in verdict.stopped[:MOST_SHOWN]:
            show(f"  level {above}: {fault}")
        if len(verdict.stopped) > MOST_SHOWN:
            show(f"  ... and {len(verdict.stopped) - MOST_SHOWN:,} more")
        checks = [str(check) for check in verdict.checks if check.same is not False]
        for words in [*checks, *(f"note: {note}" for note in verdict.notes)] if alone else []:
            show(f"  {words}")
    if not alone:
        reached_it = sum(verdict.level is not None and verdict.level >= level for verdict in verdicts)
        show(f"{reached_it} of {len(verdicts)} runs reach level {level}: {LEVELS[level]}")
        open_ = sorted({str(check) for verdict in verdicts for check in verdict.checks if check.same is None})
        for words in open_[:MOST_SHOWN]:
            show(f"  {words}")
