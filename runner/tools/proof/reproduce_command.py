"""`runner reproduce`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Optional

import typer

from runner.cli.options import With, WithFiles, options_of, project_root, project_root_or_here
from runner.core.errors import RequestError, RunError
from runner.records.schema import Record
from runner.tools.proof.kit import Kit
from runner.tools.proof.sources import Sources, Tree

REPRODUCED = Path("reproduced")


def reproduce(
    run: Annotated[
        Path,
        typer.Argument(metavar="RUN|KIT", help="The folder of a run; or an archive: one run of each of its cells."),
    ],
    on: Annotated[Optional[str], typer.Option(metavar="TARGET", help="Where; by default where it was run.")] = None,
    with_: With = None,
    only: Annotated[
        Optional[str], typer.Option("--run", metavar="ID", help="Only this run of the archive; any part of its name.")
    ] = None,
    results: Annotated[Path, typer.Option(metavar="FOLDER", help="The folder of the new records.")] = REPRODUCED,
    with_files: WithFiles = None,
    anyway: Annotated[bool, typer.Option("--anyway", help="Run it though its hashes do not hold.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run a record again from what it says, and compare.

    Results are compared bit for bit. The code is that of the commit, with the uncommitted changes that were kept. Exit
    code 0: every loss and the final parameters are the same; 1: they are not, or a run failed.
    """
    from runner.cli.terminal import Screen
    from runner.execution import signals
    from runner.tools.proof.reproduce import Wish, not_run, reproduce
    from runner.tools.proof.verify_command import finish

    here = project_root_or_here()
    with _source(run, only, anyway=anyway) as (chosen, sources), signals.taken() as interrupts:
        verdicts = []
        with Screen() as screen:
            for path, record in chosen:
                words = options_of(on or record.launch.target, with_) if with_ or on else []
                wish = Wish(on, words, results, here, anyway, tuple(with_files or ()))
                try:
                    verdict = reproduce(path, record, sources, wish, screen, interrupts)
                except (RequestError, RunError) as error:  # the other cells of an archive are worth their verdict
                    if not isinstance(sources, Kit):
                        raise
                    verdict = not_run(path, sources, error)
                if isinstance(sources, Kit):
                    verdict.run = f"{run}: {'/'.join(verdict.run.split('/')[-2:])}"
                verdicts.append(verdict)
    finish(verdicts, 2, {} if json else None)


@contextmanager
def _source(path: Path, only: str | None, *, anyway: bool) -> Iterator[tuple[list[tuple[Path, Record]], Tree]]:
    """Find what is run again: runs with their records, and where their code is."""
    from runner.tools.proof.integrity import runs_at
    from runner.tools.proof.kit import opened
    from runner.tools.proof.reproduce import require_whole
    from trainkit.files import is_file

    if not is_file(path):
        runs = runs_at(path, [])
        if only is not None or runs != [path]:
            msg = f"{path}: name the folder of one run, results/<experiment>/<run>, or an archive of runner bundle"
            raise RequestError(msg)
        yield [(path, require_whole(path, anyway=anyway))], Sources(project_root())
        return
    with opened(path, Sources(project_root_or_here())) as kit:
        if (faults := kit.archive.faults) and not anyway:
            raise RunError(f"{path}: no level: {faults[0]}; nothing is run from it; --anyway runs it all the same")
        found = [(folder, require_whole(folder, anyway=anyway)) for folder in runs_at(kit.archive.results, [])]
        chosen = _one_of_each_cell(found) if only is None else [folder for folder in found if only in folder[0].name]
        if not chosen:
            raise RequestError(f"{path}: " + (f"no run '{only}' in it" if only else "no run in it was completed"))
        yield chosen, kit


def _one_of_each_cell(found: list[tuple[Path, Record]]) -> list[tuple[Path, Record]]:
    """Choose the first completed run of each cell."""
    chosen: dict[str, tuple[Path, Record]] = {}
    for path, record in sorted(found, key=lambda pair: pair[1].launch.started):
        launch = record.launch
        if record.status == "completed":
            chosen.setdefault(f"{launch.experiment} {launch.layout} {launch.axes} {launch.target}", (path, record))
    return list(chosen.values())
