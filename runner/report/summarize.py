"""A results folder -> Blocks and their texts: every run is read, and compared with those of its block."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from runner.core.errors import RequestError, did_you_mean
from runner.core.text import one_line
from runner.report.blocks import blocks_of
from runner.report.formats import write
from runner.report.reading import Contents, read_results
from runner.report.rows import Block

NO_RUNS = "no runs in it yet; make a first one with: runner run quickstart"


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


def show(results: Path, form: str, experiment: str | None = None) -> tuple[list[str], list[str]]:
    """Return the text of each block in one of the `FORMS`, in order, and a note for each file that was left out."""
    blocks, notes = summarize(results, experiment)
    return [write(form, block) for block in blocks], notes


def require_experiment(results: Path, experiment: str, known: Iterable[str]) -> None:
    """Raise RequestError if there are no runs of an experiment."""
    if experiment not in known:
        raise RequestError(f"{results}: no runs of '{experiment}'{did_you_mean(experiment, sorted(known))}")
