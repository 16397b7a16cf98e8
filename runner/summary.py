"""A results folder -> Blocks: what `runner summarize` does, from one end to the other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.collect import collect
from runner.compare import Block, compare, judge
from runner.environment import is_alive
from runner.errors import RequestError, did_you_mean
from runner.index import read_results
from runner.record import RunFolder

if TYPE_CHECKING:
    from runner.schema import Record

NO_RUNS = "no runs in it yet; make a first one with: runner run quickstart"


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
    folder = RunFolder(path)
    try:
        launch = folder.read().launch
        outcome = folder.outcome()
    except FileNotFoundError as error:
        msg = f"{path}: no run's folder: it has no {Path(str(error.filename)).name}"
        raise RequestError(msg) from None
    except (ValueError, OSError) as error:
        msg = f"{path}: {error}"
        raise RequestError(msg) from None
    if outcome is None and is_alive(launch.runner) is not False:
        msg = f"{path}: its runner still lives, or is on another machine ({launch.runner.get('host')})"
        raise RequestError(msg)
    record = collect(folder, launch, outcome)
    folder.replace(record)
    return record


def _definition(folder: Path) -> dict[str, Any]:
    try:
        definition = json.loads((folder / "run.json").read_bytes())["launch"]["definition"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return definition if isinstance(definition, dict) else {}
