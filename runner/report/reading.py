"""`results/` -> RunSummaries; nothing is ever written below `results/`."""

import shlex
from pathlib import Path
from typing import NamedTuple

from runner.records.listing import RECORD, list_runs
from runner.records.schema import LARGEST_RECORD, NO_OUTCOME, Record, read_record
from runner.report.run_summary import RunSummary, summary_of
from trainkit.files import is_file, read_file

BROKEN = (ValueError, TypeError, OSError, AttributeError, LookupError, ArithmeticError, RecursionError)


class Contents(NamedTuple):
    """The runs below a folder, and a note for each file that could not be read."""

    runs: list[RunSummary]
    notes: list[str]


def read_results(results: Path) -> Contents:
    """Read every record below a folder; RequestError if there is no such folder."""
    notes: list[str] = []
    runs: list[RunSummary] = []
    broken: list[str] = []
    killed = 0
    for path in list_runs(results, notes):
        try:
            record = read_run(results / path, results)
            if record.status == "running":
                record = fate_of(record, results / path)
                killed += not record.launch.by_hand and record.status != "running"
            runs.append(summary_of(record, path))
        except BROKEN as error:
            broken.append(f"{results / path / RECORD}: left out: {why(error)}")
    notes += broken
    if killed:
        ended = "the runner of 1 run was" if killed == 1 else f"the runners of {killed} runs were"
        command = f"runner recover {shlex.quote(str(results))}"
        notes.append(f"{ended} killed; {command} ends what is left of it and makes the record")
    return Contents(runs, notes)


def read_run(folder: Path, below: Path) -> Record:
    """Read the record of a run; no part of its path below a folder may be a link. ValueError, OSError: it is broken."""
    return read_record(read_file(folder / RECORD, LARGEST_RECORD, below=below))


def why(error: Exception) -> str:
    """Return in one line why a record cannot be read."""
    return str(getattr(error, "strerror", None) or error) or type(error).__name__


def fate_of(record: Record, folder: Path) -> Record:
    """Find out what became of a run whose record says `running`; nothing is written."""
    if record.launch.by_hand:
        from runner.records.folder import RunFolder

        if not RunFolder(folder).is_held():
            make = f"make its record with: runner collect {shlex.quote(str(folder))}"
            record.status, record.reason = "incomplete", f"started by hand; if all its nodes have ended, {make}"
        return record
    from runner.records.provenance import is_alive  # psutil takes its time

    if is_alive(record.launch.runner) is False:
        record.status, record.reason = NO_OUTCOME
        if is_file(folder / "raw" / "outcome.json"):
            record.reason = "the run ended and its record was not written"
    return record
