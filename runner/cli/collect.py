"""`runner collect`."""

from pathlib import Path
from typing import Annotated, Optional

import typer

from runner.cli.lines import say, show
from runner.cli.options import Results, With, options_of, project_root
from runner.core.errors import RequestError, RunError
from runner.records.schema import Record


def collect(
    source: Annotated[
        str,
        typer.Argument(
            metavar="RUN|LOG",
            help="A run's folder, results/<experiment>/<run>; a file of k8s/ or slurm/; or the stdout of another "
            "program: a file, a folder of files, or - for stdin.",
        ),
    ],
    results: Results = Path("results"),
    with_: With = None,
    json: Annotated[bool, typer.Option("--json", help="Print each log as one JSON object in one line.")] = False,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Show which lines of a log were read, and by what."),
    ] = False,
    dialect: Annotated[
        Optional[list[Path]],
        typer.Option(metavar="FILE", help="A YAML file that says how the lines of a log are read; may be repeated."),
    ] = None,
) -> None:
    """Make the record of a run, of a job, or of any stdout.

    The run may be one whose runner was killed, the job one that was applied by hand, and the stdout that of any
    training. From a folder its raw files are parsed again; for a run whose runner was killed, it is the first record.
    From a manifest the pods of its job are read in the cluster, to their end if they still run; it takes the options of
    target kubernetes. The stdout of a program that knows nothing of the kit is read by dialects.
    """
    from runner.cli.collect_logs import collect_logs, is_log

    path = Path(source)
    is_manifest = path.suffix in (".yaml", ".yml") and not path.is_dir()
    if with_ and not is_manifest:
        raise RequestError(f"--with {with_[0]}: is for a file of k8s/; a run's folder and a log take no options")
    if not is_manifest and path.suffix != ".sbatch" and is_log(source):
        collect_logs(source, dialect or [], json=json, explain=explain)
    elif (json or dialect or explain) and (is_manifest or path.exists()):
        only = "--json, --dialect and --explain are for"
        raise RequestError(f"{path}: {only} the stdout of another program, not for a run or a manifest")
    elif path.suffix == ".sbatch" and not path.is_dir():
        _collect_batch(path, results)
    elif is_manifest:
        _collect_jobs(path, results, options_of("kubernetes", with_))
    else:
        _collect_run(path)


def _collect_run(path: Path) -> None:
    from runner.records.finalize import reparse
    from runner.records.folder import RunFolder
    from runner.records.manifest import LATER, NAME

    had_manifest = (path / NAME).exists()
    record = reparse(path)
    if not had_manifest and (path / NAME).exists() and LATER in RunFolder(path).kept_manifest().said:
        say(f"note: {path}: it had no {NAME}: that of what is there now does not show what was altered before")
    _show(path, record)


def _collect_batch(path: Path, results: Path) -> None:
    from runner.execution.collect_batch import collect_batch

    statuses = set()
    for folder, record in collect_batch(path, project_root(), results):
        _show(folder, record)
        statuses.add(record.status)
    if statuses != {"completed"}:
        raise typer.Exit(RunError.exit_code)


def _show(folder: Path, record: Record) -> None:
    show(f"{folder}: {record.status}" + (f": {record.reason}" if record.reason else ""))


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
