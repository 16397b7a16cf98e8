"""A copy of a record is no repeat: of all that lie side by side, a run counts once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from runner.report.run_summary import RunSummary


def is_complete(run: RunSummary) -> bool:
    """Whether a run came to its end and has a time."""
    return run.status == "completed" and bool(run.seconds)


def once(runs: Iterable[RunSummary]) -> list[RunSummary]:
    """Return each run once, the oldest first.

    Of its copies that is the complete one, else the last attempt; of equal ones that in its experiment's folder.
    """
    copies: dict[str, list[RunSummary]] = defaultdict(list)
    for run in sorted(runs, key=_age):
        copies[run.id or run.path].append(run)
    return sorted((max(own, key=_worth) for own in copies.values()), key=_age)


def copies_note(copies: Collection[RunSummary]) -> str:
    """Say how many copies lie beside the runs of a cell, and where one does."""
    count = len(copies)
    where = min(run.path for run in copies)
    return f"{count} {'copy of a run does' if count == 1 else 'copies of runs do'} not count, the first: {where}"


def _worth(run: RunSummary) -> tuple[bool, str, bool]:
    return is_complete(run), run.started, run.path.split("/")[:-1][-1:] == [run.experiment]


def _age(run: RunSummary) -> tuple[str, str]:
    return run.started, run.path
