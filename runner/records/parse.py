"""Raw files -> Record: a pure parse that can be done again at any time."""

from operator import itemgetter
from pathlib import Path

from runner.core.layout import Layout
from runner.core.text import one_line
from runner.logs.mlperf import OBSERVED
from runner.records.checks import Doubts, check_figure, nan_since
from runner.records.events import read_events
from runner.records.failure import first_failure
from runner.records.folder import RunFolder
from runner.records.observed import take_observed
from runner.records.run_events import RunEvents
from runner.records.schema import Launch, Outcome, Record
from runner.records.seen import doubts_of
from runner.records.stdout_figures import take_printed
from runner.records.verdict import verdict
from trainkit import files

MOST_MALFORMED_KEPT = 20
LARGEST_FILE = 8_000_000_000
"""Bytes of one raw file; a larger one is left out."""


def collect(folder: RunFolder, launch: Launch, outcome: Outcome | None) -> Record:
    """Parse a run's raw files into its record; without an outcome the runner did not live to see the end.

    Whatever the files hold, it gives a record: what does not fit is null, and a doubt. ValueError for a launch whose
    layout or dialect is none.
    """
    doubts = Doubts()
    raw = folder.raw_files(Layout.parse(launch.layout))
    run_events = RunEvents(raw.layout, doubts)
    for rank, path in raw.printed():
        _read(path, rank, folder.path, run_events, doubts, only_observed=bool(launch.dialects))
    record = Record(launch=launch, status="running", outcome=outcome, ranks=run_events.ranks())
    record.metrics = run_events.metrics()
    if outcome and (wall := check_figure("wall_seconds", outcome.wall_seconds, doubts)) is not None:
        record.metrics["wall_seconds"] = wall
    record.phases = run_events.phases()
    record.epochs = run_events.epochs()
    record.evaluations = [fields for _, fields in sorted(run_events.evaluations, key=itemgetter(0))]
    record.facts = run_events.facts
    record.load = run_events.load()
    record.malformed = run_events.malformed
    record.events = {
        "seen": sum(rank.events_seen for rank in record.ranks),
        "expected": sum(rank.events_expected or 0 for rank in record.ranks),
        "malformed": run_events.broken,
        **({"too_long": run_events.too_long} if run_events.too_long else {}),
    }
    if lost := nan_since(record.epochs, record.evaluations):
        doubts.add(lost)
    if launch.dialects or launch.metrics:
        take_printed(record, folder, raw, doubts)
    take_observed(record)
    record.failure = first_failure(folder, raw, outcome, record.ranks)
    if outcome and not outcome.stopped_because and not record.failure:
        for doubt in doubts_of(folder, raw, launch):
            doubts.add(doubt)
    record.doubts = doubts.all()
    record.status, record.reason = verdict(record, launch)
    return record


def _read(path: Path, rank: int, below: Path, run_events: RunEvents, doubts: Doubts, *, only_observed: bool) -> None:
    """Read what one process printed; a file that cannot be read is a doubt."""
    try:
        with files.open_file(path, below) as file:
            if file.seek(0, 2) > LARGEST_FILE:
                doubts.add(f"raw/{path.name}: left out: it has more than {LARGEST_FILE:,} bytes")
                return
            file.seek(0)
            for events, malformed, too_long in read_events(file):
                for event in events:
                    if event.key == OBSERVED:
                        run_events.observe(event)
                    elif not only_observed:
                        run_events.take(event, rank)
                if only_observed:
                    continue
                for line in malformed[: MOST_MALFORMED_KEPT - len(run_events.malformed)]:
                    said = f"raw/{path.name}:{line.line}: {line.reason}: {line.text}"
                    run_events.malformed.append(one_line(said))
                run_events.broken += len(malformed)
                run_events.too_long += too_long
    except OSError as error:
        doubts.add(f"raw/{path.name}: left out: {error.strerror or error}")
