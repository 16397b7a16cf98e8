"""A results folder -> Blocks, as values: every run is read, and compared with those of its block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.report.blocks import blocks_of
from runner.report.reading import read_results
from runner.report.show import NO_RUNS, require_experiment

if TYPE_CHECKING:
    from pathlib import Path

    from runner.report.rows import Block


def summarize(results: Path, experiment: str | None = None) -> tuple[list[Block], list[str]]:
    """Read a results folder and compare its runs; the second part is a note for each file that was left out."""
    runs, notes = read_results(results)
    if experiment is not None:
        require_experiment(results, experiment, {one.experiment for one in runs})
    elif not runs:
        notes.append(f"{results}: {NO_RUNS}")
    return blocks_of(results, [one for one in runs if experiment in (None, one.experiment)]), notes
