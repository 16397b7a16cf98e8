"""A results folder -> Blocks: what `runner summarize` does, from one end to the other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import msgspec

from runner.compare import Block, compare, judge
from runner.errors import RequestError, did_you_mean
from runner.index import read_results
from runner.record import RunFolder

if TYPE_CHECKING:
    from runner.schema import Record

NO_RUNS = "no runs in it yet; make a first one with: runner run quickstart"


class _Skip(TypedDict):
    why: str


class _Hardware(TypedDict):
    hardware: str


class _Row(_Hardware, total=False):
    total_seconds: float
    train_seconds: float
    speedup: float
    accuracy: float
    best_accuracy: float
    val_loss: list[float]


class _Published(TypedDict):
    source: str
    rows: list[_Row]


_SHAPES = {
    "summary": str,
    "matrix": dict[str, list[Any]],
    "baseline": dict[str, Any],
    "skip": list[_Skip],
    "published": _Published,
}


def summarize(results: Path, experiment: str | None = None) -> tuple[list[Block], list[str]]:
    """Read a results folder and compare its runs; the second part is a note for each file that was left out."""
    digests, notes = read_results(results)
    if experiment is not None:
        known = sorted({one.experiment for one in digests})
        digests = [one for one in digests if one.experiment == experiment]
        if not digests:
            msg = f"{results}: no runs of '{experiment}'{did_you_mean(experiment, known)}"
            raise RequestError(msg)
    if not digests:
        notes.append(f"{results}: {NO_RUNS}")
    blocks = compare(digests)
    definitions: dict[tuple[str, str], dict[str, Any]] = {}
    for block in blocks:
        newest = block.newest
        key = (newest.experiment, newest.definition_sha256)
        if key not in definitions:
            definitions[key] = _definition(results / newest.path)
        judge(block, definitions[key])
    return blocks, notes


def reparse(path: Path) -> Record:
    """Parse a run's raw files again and replace its record; RequestError if it still runs or is none."""
    from runner.afterwards import collect_afterwards  # noqa: PLC0415 - the table does without them
    from runner.collect import collect  # noqa: PLC0415 - the table does without them
    from runner.liveness import is_alive  # noqa: PLC0415

    folder = RunFolder(path)
    try:
        launch, outcome = folder.launch(), folder.outcome()
    except FileNotFoundError as error:
        msg = f"{path}: no run's folder: it has no {Path(str(error.filename)).name}"
        raise RequestError(msg) from None
    except (ValueError, OSError) as error:
        msg = f"{path}: {error}"
        raise RequestError(msg) from None
    if not folder.raw.is_dir():
        msg = f"{path}: its raw files are gone: there is nothing to parse"
        raise RequestError(msg)
    if outcome is None and launch.by_hand:
        record = collect_afterwards(folder)
        if record is None:
            msg = f"{path}: it still runs"
            raise RequestError(msg)
        return record
    if outcome is None and is_alive(launch.runner) is not False:
        msg = f"{path}: its runner still lives, or is on another machine ({launch.runner.get('host')})"
        raise RequestError(msg)
    record = collect(folder, launch, outcome)
    folder.replace(record)
    return record


def _definition(folder: Path) -> dict[str, Any]:
    """Read what a record's definition says for the table; a part that has another shape is passed over."""
    try:
        definition = RunFolder(folder).read().launch.definition
    except (OSError, ValueError):
        return {}
    return {key: definition[key] for key, shape in _SHAPES.items() if _fits(definition.get(key), shape)}


def _fits(value: object, shape: Any) -> bool:
    try:
        msgspec.convert(value, shape)
    except msgspec.ValidationError:
        return False
    return True
