"""RunSummaries -> Blocks: each is compared by the definition that its newest run was made from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypedDict

import msgspec

from runner.core.values import plain
from runner.records.folder import RunFolder
from runner.report.compare import compare
from runner.report.rows import Block
from runner.report.run_summary import RunSummary

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
    where: str
    note: str


class _Published(TypedDict):
    source: str
    rows: Annotated[list[_Row], msgspec.Meta(max_length=500)]


_SHAPES: dict[str, Any] = {
    "summary": str,
    "args": dict[str, Any],
    "matrix": dict[str, list[Any]],
    "baseline": dict[str, Any],
    "skip": Annotated[list[_Skip], msgspec.Meta(max_length=500)],
    "published": _Published,
}


def blocks_of(results: Path, runs: list[RunSummary]) -> list[Block]:
    """Compare runs, each block by the definition that its newest run was made from."""
    definitions: dict[tuple[str, ...], dict[str, Any]] = {}

    def definition_of(run: RunSummary) -> dict[str, Any]:
        key = (run.path.rpartition("/")[0], run.experiment, run.definition_sha256)
        if key not in definitions:
            definitions[key] = _definition(results / run.path)
        return definitions[key]

    return compare(runs, definition_of)


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
