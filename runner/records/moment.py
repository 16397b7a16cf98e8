"""When a run began, by its record."""

from datetime import datetime, timezone

from runner.records.schema import Record

_CLOCK_SECONDS = 2.0


def read_moment(text: str) -> datetime:
    """Read a time of day; one without a zone is UTC. ValueError for what is none."""
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def moment_of(record: Record) -> float:
    """Return when a run began, in seconds since 1970 UTC.

    A job may wait in a queue after its launch, and the time of a launch is in whole seconds; so where the figures agree
    it is its end less what its processes took.
    """
    launched, ended = read_moment(record.launch.started).timestamp(), end_of(record)
    if ended is None or record.outcome is None:
        return launched
    wall = record.outcome.wall_seconds
    took = min(record.metrics.get("total_seconds", wall), wall)
    return max(launched, ended - took) if abs(launched + wall - ended) <= _CLOCK_SECONDS else launched


def end_of(record: Record) -> float | None:
    """Return when the processes of a run had ended, in seconds since 1970 UTC; None if its record does not say."""
    return read_moment(record.outcome.ended).timestamp() if record.outcome else None
