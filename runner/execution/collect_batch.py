"""Batch jobs that somebody submitted: the folder that each wrote becomes a run with a record."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runner.core.errors import RequestError
from runner.core.layout import Layout
from runner.core.text import one_line
from runner.definitions import experiment as definition
from runner.definitions import program
from runner.definitions.plan import Cell, Run
from runner.execution.launch import describe_launch, describe_surroundings
from runner.records import provenance
from runner.records.finalize import finalize_ended
from runner.records.folder import RunFolder
from runner.records.schema import FINISHED, Launch, NodeExit, Record
from runner.targets.slurm import commands
from runner.targets.slurm.ends import NodeFile, ends, read_log
from runner.targets.slurm.script import cell_of
from runner.targets.slurm.target import Slurm, SlurmSpec
from runner.targets.slurm.watch import JobState
from runner.targets.torchrun import node_specs
from trainkit import files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LARGEST = 1_000_000
_ID = re.compile(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z-slurm-([0-9a-f]{8,12})")


def collect_batch(path: Path, root: Path, results: Path) -> Iterator[tuple[Path, Record]]:
    """Yield the folder and the record of every job of a batch script; a record that is there already is not changed.

    Args:
        path: the script.
        root: the project's folder.
        results: the folder of the records, to which the jobs have written.

    Raises RequestError for a script that is none of the kit's, and if no job of it has ended.
    """
    told = _read(path)
    try:
        name = str(dict(told)["experiment"])
    except (KeyError, TypeError, ValueError) as error:
        msg = f"{path}: its line of the kit does not say which experiment it is: {one_line(error)}"
        raise RequestError(msg) from None
    experiment = definition.load(definition.find(name, root), root)
    found, running = 0, []
    for place in sorted((results / experiment.name).glob("*-slurm-*")):
        folder, known = RunFolder(place), _ID.fullmatch(place.name)
        if not known or not _is_of(folder, told):
            continue
        found += 1
        if (record := _before(folder)) is None:
            run = _run(told, experiment, path)
            exits = _exits(folder, run, job := JobState(str(int(known[7], 16))))
            if exits is None:
                running.append(job.job)
                continue
            launch = _launch(run, known)
            folder.write_request(launch, _text(place / "request" / SlurmSpec.file, place), "", SlurmSpec.file)
            record = finalize_ended(folder, exits)
        yield place, record
    if running:
        msg = f"{path}: job {', '.join(running)} still runs: collect it when it has ended"
        raise RequestError(msg)
    if not found:
        msg = f"{path}: no job of it has written to {results / experiment.name}: sbatch {path}"
        raise RequestError(msg)


def _read(path: Path) -> Any:
    try:
        return cell_of(_text(path))
    except OSError as error:
        msg = f"{path}: {error.strerror}"
    except (ValueError, RecursionError) as error:
        msg = f"{path}: no batch script of the kit: {one_line(error)}"
    raise RequestError(msg)


def _text(path: Path, below: Path | None = None) -> str:
    return files.read_file(path, LARGEST, below=below).decode()


def _is_of(folder: RunFolder, told: object) -> bool:
    """Whether a job of the script wrote a folder, and no runner: its own copy of the script is of the same cell."""
    try:
        if cell_of(_text(folder.path / "request" / SlurmSpec.file, folder.path)) != told:
            return False
        return not files.is_file(folder.path / "request" / "launch.json") or folder.launch().by_hand
    except (OSError, ValueError, RecursionError):
        return False


def _before(folder: RunFolder) -> Record | None:
    try:
        record = folder.read()
    except (OSError, ValueError):
        return None
    return record if record.status in FINISHED else None


def _run(told: Any, experiment: definition.Experiment, path: Path) -> Run:
    try:
        layout, device, named = Layout.parse(told["layout"]), str(told["device"]), str(told["program"])
        cell = Cell(layout, program.find(experiment.root, named), dict(told["axes"]), dict(told["args"]))
    except (KeyError, ValueError, TypeError) as error:
        msg = f"{path}: its line of the kit does not say what was run: {one_line(error)}"
        raise RequestError(msg) from None
    return Run(experiment, cell, 1, 1, device)


def _exits(folder: RunFolder, run: Run, job: JobState) -> list[NodeExit] | None:
    """Return how each node ended, by its own report and by Slurm's word for the job; None while it runs."""
    nodes = [NodeFile(folder, node, _Ended(job)) for node in range(run.cell.layout.nodes)]
    try:
        job.ask()
    except commands.SlurmError as error:
        if not all(one.has_file for one in nodes):
            raise RequestError(one_line(f"job {job.job}: {error}")) from None
        return [one.read() or NodeExit(one.node) for one in nodes]
    return ends(nodes, job, read_log(folder), stopped=False) if job.has_ended else None


@dataclass(frozen=True)
class _Ended:
    """A job of which nothing more comes."""

    watch: JobState


def _launch(run: Run, known: re.Match[str]) -> Launch:
    """Describe the launch; its id and its time are those that the job gave to its folder."""
    code, _ = provenance.describe_code(run.experiment.root, run.cell.program.sources(run.experiment.root))
    nodes = node_specs(run.cell, "node0", run.device)
    launch = describe_launch(run, Slurm.name, nodes, describe_surroundings(code))
    year, month, day, hour, minute, second, _ = known.groups()
    launch.id = known[0]
    launch.started = f"{year}-{month}-{day}T{hour}:{minute}:{second}.000+00:00"
    launch.by_hand = True
    return launch
