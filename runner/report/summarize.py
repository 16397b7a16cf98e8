"""Read the records below a results folder and compare their runs. Nothing is written below that folder."""

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from runner.core.errors import RequestError, did_you_mean, reason_of
from runner.core.layout import Layout
from runner.core.values import LARGEST
from runner.records import checked
from runner.records.listing import RECORD, list_runs
from runner.records.schema import LARGEST_RECORD, NO_OUTCOME, Record, read_record
from runner.report.compare import compare
from runner.report.rows import Block
from runner.report.run_summary import RunSummary, summary_of
from trainkit.files import is_file, read_file

NO_RUNS = "no runs yet; `runner` without arguments shows how to make the first one"
BROKEN = (ValueError, TypeError, OSError, AttributeError, LookupError, ArithmeticError, RecursionError)
_Figure = Annotated[float, msgspec.Meta(gt=0, le=LARGEST)] | None
_Share = Annotated[float, msgspec.Meta(gt=0, le=1)] | None


class Contents(NamedTuple):
    """The runs below a folder, and notes for the user, for example on each unreadable file."""

    runs: list[RunSummary]
    notes: list[str]


class _PublishedRow(msgspec.Struct):
    hardware: str
    total_seconds: _Figure = None
    train_seconds: _Figure = None
    round_trip_seconds: _Figure = None
    speedup: _Figure = None
    accuracy: _Share = None
    best_accuracy: _Share = None
    val_loss: list[float] | None = None
    where: str | None = None
    note: str | None = None


class _Published(msgspec.Struct):
    source: str
    rows: list[_PublishedRow]


class _Skip(msgspec.Struct):
    why: str


class _Definition(msgspec.Struct):
    summary: str = ""
    args: dict[str, Any] | None = None
    matrix: dict[str, list[Any]] = {}
    baseline: dict[str, Any] | None = None
    skip: list[_Skip] = []
    published: _Published | None = None


def summarize(results: Path, experiment: str | None = None) -> tuple[list[Block], list[str]]:
    """Read a results folder and compare the runs of one experiment, or of all experiments.

    Returns the blocks, and notes for the user, for example on each file left out. Raises RequestError if the folder is
    missing, or if it has no runs of the experiment.
    """
    runs, notes = runs_of(results, experiment)
    if not runs:
        notes = [*notes, f"{results}: {NO_RUNS}"]
    return blocks_of(results, runs), notes


def runs_of(results: Path, experiment: str | None) -> Contents:
    """Read the runs of one experiment, or all runs. Raises RequestError if the experiment has no runs."""
    runs, notes = read_results(results)
    if experiment is not None:
        require_experiment(results, experiment, {run.experiment for run in runs})
        runs = [run for run in runs if run.experiment == experiment]
    return Contents(runs, notes)


def require_experiment(results: Path, experiment: str, known: Iterable[str]) -> None:
    """Raise RequestError unless the experiment is known."""
    if experiment not in known:
        raise RequestError(f"{results}: no runs of '{experiment}'{did_you_mean(experiment, sorted(known))}")


def blocks_of(results: Path, runs: list[RunSummary]) -> list[Block]:
    """Compare runs whose records are below a results folder."""
    definitions: dict[tuple[str, ...], dict[str, Any]] = {}

    def definition_of(run: RunSummary) -> dict[str, Any]:
        key = (run.path.rpartition("/")[0], run.experiment, run.definition_sha256)
        if key not in definitions:
            folder = results / run.path
            definitions[key] = {**_definition(folder), "checked": checked.read(folder.parent)}
        return definitions[key]

    return compare(runs, definition_of)


def _definition(folder: Path) -> dict[str, Any]:
    try:
        definition = read_run(folder, folder).launch.definition
        baseline = msgspec.convert(definition, _Definition).baseline or {}
        Layout.parse(baseline.get("layout", "1x1"))  # printed commands contain the layout
    except (OSError, ValueError):
        return {}
    return definition


def read_results(results: Path) -> Contents:
    """Read every record below a folder. Raises RequestError if there is no such folder."""
    notes: list[str] = []
    runs: list[RunSummary] = []
    killed = 0
    for path in list_runs(results, notes):
        try:
            record = read_run(results / path, results)
            if record.status == "running":
                record = fate_of(record, results / path)
                killed += not record.launch.by_hand and record.status != "running"
            runs.append(summary_of(record, path))
        except BROKEN as error:
            notes.append(f"{results / path / RECORD}: left out: {reason_of(error)}")
    if killed:
        ended = "the runner of 1 run was" if killed == 1 else f"the runners of {killed} runs were"
        command = f"runner recover {shlex.quote(str(results))}"
        notes.append(f"{ended} killed; {command} ends remaining processes and writes the record")
    return Contents(runs, notes)


def read_run(folder: Path, below: Path) -> Record:
    """Read a run's record. Raises ValueError or OSError if it is broken, or has a link in its path below `below`."""
    return read_record(read_file(folder / RECORD, LARGEST_RECORD, below=below))


def fate_of(record: Record, folder: Path) -> Record:
    """If a record says `running`, but its run has ended, correct the status. The file is not changed."""
    if record.launch.by_hand:
        from runner.records.folder import RunFolder

        if not RunFolder(folder).is_held():
            make = f"make its record with: runner collect {shlex.quote(str(folder))}"
            record.status, record.reason = "incomplete", f"started by hand; once all its nodes have ended, {make}"
        return record
    from runner.records.provenance import is_alive  # psutil is slow to import

    if is_alive(record.launch.runner) is False:
        record.status, record.reason = NO_OUTCOME
        if is_file(folder / "raw" / "outcome.json"):
            record.reason = "the run ended, but its record was not written"
    return record
