"""A results folder -> Blocks: every run is read, and compared by the definition that the newest of its block has."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import msgspec

from runner.core.errors import RequestError, did_you_mean
from runner.core.values import LARGEST
from runner.records import checked
from runner.report.compare import compare
from runner.report.reading import Contents, read_results, read_run
from runner.report.rows import Block
from runner.report.run_summary import RunSummary

NO_RUNS = "no runs in it yet; `runner` alone says how to make a first one"
_Figure = Annotated[float, msgspec.Meta(gt=0, le=LARGEST)] | None
_Share = Annotated[float, msgspec.Meta(gt=0, le=1)] | None


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
    """What a table shows of a definition, beside keys that it does not look at."""

    summary: str = ""
    matrix: dict[str, list[Any]] = {}
    baseline: dict[str, Any] | None = None
    skip: list[_Skip] = []
    published: _Published | None = None


def summarize(results: Path, experiment: str | None = None) -> tuple[list[Block], list[str]]:
    """Read a results folder and compare its runs; the second part is a note for each file that was left out."""
    return compared(results, read_results(results), experiment)


def compared(results: Path, contents: Contents, experiment: str | None = None) -> tuple[list[Block], list[str]]:
    """Compare the runs of a folder, those of one experiment or all; RequestError if it has none of the experiment."""
    runs, notes = contents
    if experiment is not None:
        require_experiment(results, experiment, {run.experiment for run in runs})
        runs = [run for run in runs if run.experiment == experiment]
    elif not runs:
        notes = [*notes, f"{results}: {NO_RUNS}"]
    return blocks_of(results, runs), notes


def require_experiment(results: Path, experiment: str, known: Iterable[str]) -> None:
    """Raise RequestError if there are no runs of an experiment."""
    if experiment not in known:
        raise RequestError(f"{results}: no runs of '{experiment}'{did_you_mean(experiment, sorted(known))}")


def blocks_of(results: Path, runs: list[RunSummary]) -> list[Block]:
    """Compare runs whose records lie below a folder."""
    definitions: dict[tuple[str, ...], dict[str, Any]] = {}

    def definition_of(run: RunSummary) -> dict[str, Any]:
        key = (run.path.rpartition("/")[0], run.experiment, run.definition_sha256)
        if key not in definitions:
            folder = results / run.path
            definitions[key] = {**_definition(folder), "checked": checked.read(folder.parent)}
        return definitions[key]

    return compare(runs, definition_of)


def _definition(folder: Path) -> dict[str, Any]:
    """Read a record's definition for the table; return {} if it is invalid."""
    try:
        definition = read_run(folder, folder).launch.definition
        msgspec.convert(definition, _Definition)
    except (OSError, ValueError):
        return {}
    return definition
