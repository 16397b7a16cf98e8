"""When a run began, by its record."""

from datetime import datetime, timezone

from runner.core.values import number
from runner.records.schema import Record

_CLOCK_SECONDS = 2.0


def read_moment(text: str) -> datetime:
    """Read a time of day; one without a zone is UTC. ValueError for what is none."""
    moment = datetime.fromisoformat(text[:40].replace("Z", "+00:00"))
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def moment_of(record: Record) -> float | None:
    """Return when a run began, in seconds since 1970 UTC; None if its record does not say.

    A job may wait in a queue after its launch, and the time of a launch is in whole seconds; so where the figures agree
    it is its end less what its processes took.
    """
    launched, ended = _moment(record.launch.started), end_of(record)
    total = number(record.metrics.get("total_seconds"), 0.0)
    if launched is None or ended is None or record.outcome is None:
        return launched
    wall = record.outcome.wall_seconds
    took = wall if total is None else min(total, wall)
    return max(launched, ended - took) if abs(launched + wall - ended) <= _CLOCK_SECONDS else launched


def end_of(record: Record) -> float | None:
    """Return when the processes of a run had ended, in seconds since 1970 UTC; None if its record does not say."""
    return _moment(record.outcome.ended) if record.outcome else None


def _moment(text: str) -> float | None:
    try:
        return read_moment(text).timestamp()
    except (ValueError, OverflowError):
        return None
