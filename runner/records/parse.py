"""Raw files -> Record: a pure function that can be repeated at any time."""

from runner.core.layout import Layout
from runner.core.text import one_line
from runner.logs.mlperf import OBSERVED
from runner.records.doubts import Doubts, nan_since, not_trained
from runner.records.events import read_events
from runner.records.failure import first_failure
from runner.records.folder import LARGEST_RAW, RunFolder
from runner.records.observed import take_observed
from runner.records.raw_files import RawFiles
from runner.records.run_events import RunEvents
from runner.records.schema import Launch, Outcome, Record
from runner.records.stdout_figures import take_printed
from runner.records.verdict import verdict


def collect(folder: RunFolder, launch: Launch, outcome: Outcome | None) -> Record:
    """Parse a run's raw files into its record; without an outcome the runner was killed.

    Broken files and events become doubts. ValueError for a launch with an invalid layout or dialect.
    """
    doubts = Doubts()
    raw = folder.raw_files(Layout.parse(launch.layout))
    record = Record(launch=launch, status="running", outcome=outcome)
    malformed = _take_events(record, raw, doubts)
    record.metrics |= {"wall_seconds": outcome.wall_seconds} if outcome else {}
    record.events = {
        "seen": sum(rank.events_seen for rank in record.ranks),
        "expected": sum(rank.events_expected or 0 for rank in record.ranks),
        "malformed": malformed,
    }
    if lost := nan_since(record.epochs, record.evaluations):
        doubts.add(lost)
    if launch.dialects or launch.metrics:
        take_printed(record, folder, raw, doubts)
    take_observed(record)
    record.failure = first_failure(raw, outcome, record.ranks)
    if outcome and not outcome.stopped_because and not record.failure:
        for doubt in not_trained(raw, launch):
            doubts.add(doubt)
    record.doubts = doubts.all()
    record.status, record.reason = verdict(record, launch)
    return record


def _take_events(record: Record, raw: RawFiles, doubts: Doubts) -> int:
    """Take the events into a record, and return the number of malformed event lines.

    Of a program that is read by a dialect only the observer's lines count.
    """
    taken = RunEvents(raw.layout, doubts)
    only_observed = bool(record.launch.dialects)
    malformed, first = 0, ""
    for rank, path in raw.printed():
        try:
            if path.stat().st_size > LARGEST_RAW:
                doubts.add(f"raw/{path.name}: left out: it has more than {LARGEST_RAW:,} bytes")
                continue
            with path.open("rb") as file:
                for events, broken in read_events(file):
                    for event in events:
                        if not only_observed or event.key == OBSERVED:
                            taken.take(event, rank)
                    if broken and not only_observed:
                        first = first or f"raw/{path.name}:{broken[0].line}: {broken[0].reason}: {broken[0].text}"
                        malformed += len(broken)
        except OSError as error:
            doubts.add(f"raw/{path.name}: left out: {error.strerror or error}")
    if malformed:
        doubts.add(one_line(f"{malformed:,} malformed event lines, the first is {first}"))
    taken.fill(record)
    return malformed
