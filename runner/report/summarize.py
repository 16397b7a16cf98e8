"""A results folder -> Blocks: every run is read, and compared by the definition that the newest of its block has."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec

from runner.core.errors import RequestError, did_you_mean
from runner.core.text import one_line
from runner.core.values import plain
from runner.definitions.published import NUMBERS
from runner.records import checked
from runner.records.folder import RunFolder
from runner.report.compare import compare
from runner.report.reading import Contents, read_results
from runner.report.rows import Block
from runner.report.run_summary import RunSummary
from runner.report.statistics import DEFAULT, Confidence

NO_RUNS = "no runs in it yet; `runner` alone says how to make a first one"
_Figure = Annotated[float, msgspec.Meta(gt=1e-12, le=1e18)]
_Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
_Loss = Annotated[float, msgspec.Meta(ge=-1e9, le=1e9)]
_Text = Annotated[str, msgspec.Meta(max_length=200)]
_KINDS = {**dict.fromkeys(NUMBERS, _Figure), "accuracy": _Share, "best_accuracy": _Share, "val_loss": list[_Loss]}
_KINDS |= {"where": str, "note": str}
_ROW: Any = msgspec.defstruct("_Row", [("hardware", _Text), *((name, kind, None) for name, kind in _KINDS.items())])
_SKIP: Any = msgspec.defstruct("_Skip", [("why", str)])
_ROWS = Annotated[list[_ROW], msgspec.Meta(max_length=500)]
_SHAPES: dict[str, Any] = {
    "summary": str,
    "args": dict[str, Any],
    "matrix": dict[str, list[Any]],
    "baseline": dict[str, Any],
    "skip": Annotated[list[_SKIP], msgspec.Meta(max_length=500)],
    "published": msgspec.defstruct("_Published", [("source", str), ("rows", _ROWS)]),
}


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
        notes = [*notes, one_line(f"{results}: {NO_RUNS}")]
    return blocks_of(results, runs), notes


def require_experiment(results: Path, experiment: str, known: Iterable[str]) -> None:
    """Raise RequestError if there are no runs of an experiment."""
    if experiment not in known:
        raise RequestError(f"{results}: no runs of '{experiment}'{did_you_mean(experiment, sorted(known))}")


def blocks_of(results: Path, runs: list[RunSummary], confidence: Confidence = DEFAULT) -> list[Block]:
    """Compare runs whose records lie below a folder."""
    definitions: dict[tuple[str, ...], dict[str, Any]] = {}

    def definition_of(run: RunSummary) -> dict[str, Any]:
        key = (run.path.rpartition("/")[0], run.experiment, run.definition_sha256)
        if key not in definitions:
            folder = results / run.path
            definitions[key] = {**_definition(folder), "checked": checked.read(folder.parent)}
        return definitions[key]

    return compare(runs, definition_of, confidence)


def _definition(folder: Path) -> dict[str, Any]:
    """Read what a record's definition says for the table; a part that has another shape is ignored."""
    try:
        definition = plain(RunFolder(folder).read().launch.definition) or {}
    except (OSError, ValueError):
        return {}
    fitting = {}
    for key, shape in _SHAPES.items():
        with suppress(msgspec.ValidationError, RecursionError):
            msgspec.convert(definition.get(key), shape)
            fitting[key] = definition[key]
    return fitting
