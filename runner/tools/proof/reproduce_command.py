"""`runner reproduce`."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Optional

import typer

from runner.cli.options import With, WithFiles, options_of, project_root, project_root_or_here
from runner.cli.printing import say
from runner.core.errors import RequestError, RunError
from runner.definitions.environment import assignments
from runner.records.schema import Record
from runner.records.unpacking import opened
from runner.tools.proof.checkouts import Kit, Sources

REPRODUCED = Path("reproduced")
Chosen = list[tuple[Path, Record]]


def reproduce(
    run: Annotated[
        Path,
        typer.Argument(metavar="RUN|KIT", help="The folder of a run; or an archive, for one run of each cell."),
    ],
    on: Annotated[
        Optional[str], typer.Option(metavar="TARGET", help="Where to run; by default on the record's target.")
    ] = None,
    with_: With = None,
    only: Annotated[
        Optional[str], typer.Option("--run", metavar="ID", help="Only runs of the archive with this in their id.")
    ] = None,
    results: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder for the new records.")] = REPRODUCED,
    with_files: WithFiles = None,
    yes: Annotated[bool, typer.Option("--yes", help="Run the code of the archive without asking.")] = False,
    anyway: Annotated[bool, typer.Option("--anyway", help="Run it even if its hashes do not match.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run a record again and compare the results.

    The code is that of the record's commit, with its uncommitted changes. Exit code 0: every loss and the final
    parameters are the same, bit for bit; 1: they differ, or a run failed.
    """
    from runner.cli.terminal import Screen
    from runner.execution import signals
    from runner.tools.proof.reproduce import Wish, not_run, reproduce
    from runner.tools.proof.verify_command import finish

    here = project_root_or_here()
    with _source(run, only, anyway=anyway, yes=yes) as (chosen, sources), signals.taken() as interrupts:
        verdicts = []
        with Screen() as screen:
            for path, record in chosen:
                words = options_of(on or record.launch.target, with_) if with_ or on else []
                wish = Wish(on, words, results, here, tuple(with_files or ()))
                try:
                    verdict = reproduce(path, record, sources, wish, screen, interrupts)
                except (RequestError, RunError) as error:
                    if isinstance(sources, Sources):
                        raise
                    verdict = not_run(path, error)  # go on with the other cells of an archive
                if isinstance(sources, Kit):
                    verdict.run = f"{run}: {'/'.join(verdict.run.split('/')[-2:])}"
                verdicts.append(verdict)
    finish(verdicts, 2, {} if json else None)


@contextmanager
def _source(path: Path, only: str | None, *, anyway: bool, yes: bool) -> Iterator[tuple[Chosen, Sources | Kit]]:
    from runner.tools.proof.integrity import runs_at
    from runner.tools.proof.reproduce import require_whole
    from trainkit.files import is_file

    if not is_file(path):
        if only is not None or runs_at(path, []) != [path]:
            msg = f"{path}: name the folder of one run, results/<experiment>/<run>, or an archive of runner bundle"
            raise RequestError(msg)
        yield [(path, require_whole(path, anyway=anyway))], Sources(project_root())
        return
    with opened(path) as kit:
        if kit.faults and not anyway:
            raise RunError(f"{path}: no level: {kit.faults[0]}; nothing is run from it; --anyway runs it nevertheless")
        runs = [(folder, require_whole(folder, anyway=anyway)) for folder in runs_at(kit.results, [])]
        chosen = _one_of_each_cell(runs) if only is None else [folder for folder in runs if only in folder[0].name]
        if not chosen:
            raise RequestError(f"{path}: " + (f"no run '{only}' in it" if only else "no run in it was completed"))
        if not yes:
            ask(path, chosen)
        yield chosen, Kit(kit, Sources(project_root_or_here()))


def ask(path: Path, chosen: Chosen) -> None:
    """Show the commands and ask whether to run them.

    Raises RequestError if there is no terminal, or if the answer is no.
    """
    if not sys.stdin.isatty():
        raise RequestError(f"{path}: its code would run with your rights: read it first, then add --yes")
    for folder, record in chosen:
        launch = record.launch
        command = shlex.join(launch.argv[0]) if launch.argv else launch.program
        say(f"{folder.name}: {' '.join([*assignments(launch.args), command])}")
    if not typer.confirm(f"Run the code of {path} with your rights?", err=True):
        raise RequestError(f"{path}: nothing was run")


def _one_of_each_cell(runs: Chosen) -> Chosen:
    chosen: dict[str, tuple[Path, Record]] = {}
    for path, record in sorted(runs, key=lambda pair: pair[1].launch.started):
        launch = record.launch
        if record.status == "completed":
            chosen.setdefault(f"{launch.experiment} {launch.layout} {launch.axes} {launch.target}", (path, record))
    return list(chosen.values())
