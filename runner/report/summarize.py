"""A results folder -> Blocks: what `runner summarize` does, from one end to the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import msgspec

from runner.core.errors import RequestError, did_you_mean
from runner.core.values import plain
from runner.records.folder import RunFolder
from runner.report.cache import read_results
from runner.report.compare import compare

if TYPE_CHECKING:
    from pathlib import Path

    from runner.report.rows import Block
    from runner.report.run_summary import RunSummary

NO_RUNS = "no runs in it yet; make a first one with: runner run quickstart"

_Figure = Annotated[float, msgspec.Meta(gt=1e-12, le=1e18)]
_Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
_Loss = Annotated[float, msgspec.Meta(ge=-1e9, le=1e9)]
_Text = Annotated[str, msgspec.Meta(max_length=200)]


class _Skip(TypedDict):
    why: str


class _Hardware(TypedDict):
    hardware: _Text


class _Row(_Hardware, total=False):
    total_seconds: _Figure
    train_seconds: _Figure
    round_trip_seconds: _Figure
    speedup: _Figure
    accuracy: _Share
    best_accuracy: _Share
    val_loss: list[_Loss]
    note: str


class _Published(TypedDict):
    source: str
    rows: Annotated[list[_Row], msgspec.Meta(max_length=500)]


_SHAPES: dict[str, Any] = {
    "summary": str,
    "matrix": dict[str, list[Any]],
    "baseline": dict[str, Any],
    "skip": Annotated[list[_Skip], msgspec.Meta(max_length=500)],
    "published": _Published,
}


def summarize(results: Path, experiment: str | None = None) -> tuple[list[Block], list[str]]:
    """Read a results folder and compare its runs; the second part is a note for each file that was left out."""
    runs, notes = read_results(results)
    if experiment is not None:
        known = sorted({one.experiment for one in runs})
        runs = [one for one in runs if one.experiment == experiment]
        if not runs:
            msg = f"{results}: no runs of '{experiment}'{did_you_mean(experiment, known)}"
            raise RequestError(msg)
    if not runs:
        notes.append(f"{results}: {NO_RUNS}")
    definitions: dict[tuple[str, str], dict[str, Any]] = {}

    def definition_of(run: RunSummary) -> dict[str, Any]:
        key = (run.experiment, run.definition_sha256)
        if key not in definitions:
            definitions[key] = _definition(results / run.path)
        return definitions[key]

    return compare(runs, definition_of), notes


def _definition(folder: Path) -> dict[str, Any]:
    """Read what a record's definition says for the table; a part that has another shape is ignored."""
    try:
        definition = plain(RunFolder(folder).read().launch.definition) or {}
    except (OSError, ValueError):
        return {}
    return {key: definition[key] for key, shape in _SHAPES.items() if _fits(definition.get(key), shape)}


def _fits(value: object, shape: Any) -> bool:
    try:
        msgspec.convert(value, shape)
    except (msgspec.ValidationError, RecursionError):
        return False
    return True
