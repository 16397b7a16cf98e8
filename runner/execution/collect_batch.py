"""Batch jobs that somebody submitted: the folder that each wrote becomes a run with a record."""

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from runner.core.errors import RequestError
from runner.core.secrets import refuse_script
from runner.core.text import one_line
from runner.definitions.plan import Run
from runner.execution.launch import describe_by_hand, run_told
from runner.records.finalize import finalize_ended
from runner.records.folder import RunFolder
from runner.records.schema import NodeExit, Record
from runner.targets.slurm import commands
from runner.targets.slurm.ends import NodeFile, ends, read_log
from runner.targets.slurm.script import cell_of
from runner.targets.slurm.target import Slurm, SlurmSpec
from runner.targets.slurm.watch import JobState
from trainkit import files

LARGEST = 1_000_000
_ID = re.compile(r"(\d{8}T\d{6}Z)-slurm-([0-9a-f]{8,12})", re.ASCII)


def collect_batch(path: Path, root: Path, results: Path) -> Iterator[tuple[Path, Record]]:
    """Yield the folder and the record of every job of a batch script; a record that is there already is not changed.

    Raises RequestError for a script that is none of the kit's, and if no job of it has ended.
    """
    try:
        text = _text(path)
        refuse_script(text)
        told = cell_of(text)
    except OSError as error:
        raise RequestError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise RequestError(f"{path}: no batch script of the kit: {one_line(error)}") from None
    run = run_told(told, root, f"{path}: its line of the kit")
    found, running = 0, []
    for place in sorted((results / run.experiment.name).glob("*-slurm-*")):
        folder, named = RunFolder(place), _named(place.name)
        if not named or not _is_of(folder, told):
            continue
        job, started = named
        found += 1
        if (record := folder.finished()) is None:
            exits = _exits(folder, run, JobState(job))
            if exits is None:
                running.append(job)
                continue
            launch = describe_by_hand(run, Slurm.name, place.name, started)
            folder.write_request(launch, _text(place / "request" / SlurmSpec.file, place), "", SlurmSpec.file)
            record = finalize_ended(folder, exits)
        yield place, record
    if running:
        raise RequestError(f"{path}: job {', '.join(running)} still runs: collect it when it has ended")
    if not found:
        raise RequestError(f"{path}: no job of it has written to {results / run.experiment.name}: sbatch {path}")


def _text(path: Path, below: Path | None = None) -> str:
    return files.read_file(path, LARGEST, below=below).decode()


def _is_of(folder: RunFolder, told: str) -> bool:
    """Return whether a job of the script wrote a folder, and no runner: its copy of the script is of the same cell."""
    try:
        if cell_of(_text(folder.path / "request" / SlurmSpec.file, folder.path)) != told:
            return False
        return not files.is_file(folder.path / "request" / "launch.json") or folder.launch().by_hand
    except (OSError, ValueError):
        return False


def _exits(folder: RunFolder, run: Run, job: JobState) -> list[NodeExit] | None:
    """Return how each node ended, by its own report and by Slurm's word for the job; None while it runs."""
    nodes = [NodeFile(folder, node, lambda: job) for node in range(run.cell.layout.nodes)]
    try:
        job.ask()
    except commands.SlurmError as error:
        if not all(node.exit for node in nodes):
            raise RequestError(one_line(f"job {job.job}: {error}")) from None
        return [node.exit or NodeExit(node.number) for node in nodes]
    return ends(nodes, job, read_log(folder), stopped=False) if job.has_ended else None


def _named(name: str) -> tuple[str, datetime] | None:
    """Return the number of the job that gave a folder its name, and when; None for the name of any other folder."""
    if not (known := _ID.fullmatch(name)):
        return None
    try:
        return str(int(known[2], 16)), datetime.strptime(f"{known[1]}+0000", "%Y%m%dT%H%M%SZ%z")
    except ValueError:  # there is no such time
        return None
