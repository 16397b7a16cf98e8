"""Records of runs that nobody supervised, made from the files of their launchers, and records made again."""

import math
from datetime import datetime, timezone
from pathlib import Path

from runner.core.errors import RequestError, reason_of
from runner.core.layout import Layout
from runner.records.folder import RunFolder
from runner.records.listing import RECORD
from runner.records.moment import read_moment
from runner.records.parse import collect
from runner.records.provenance import is_alive
from runner.records.schema import NodeExit, Outcome, Record

_MOST_BYTES_IN_MEMORY = 64_000_000
"""Raw bytes of a run whose record a summary makes in memory; of a larger one somebody has to ask for it."""


def derive(folder: RunFolder) -> Record | None:
    """Make the record of a run that was started by hand, in memory, once it has ended; None while it still runs.

    Nothing is written. ValueError or OSError for a folder that is broken, and for one of too many bytes.
    """
    return None if folder.is_held() else _make(folder, _MOST_BYTES_IN_MEMORY)[1]


def finalize_ended(folder: RunFolder, exits: list[NodeExit] | None = None) -> Record:
    """Make the record of a run that was started by hand and is known to have ended, and keep it.

    `exits` are how its nodes ended, where somebody knows more of that than they have reported.
    """
    folder.name_outputs()  # the record says in which files it found what
    outcome, record = _make(folder, exits=exits)
    folder.keep_outcome(outcome)
    folder.finish(record)
    return record


def reparse(path: Path) -> Record:
    """Parse a run's raw files again and replace its record; RequestError if it still runs or is none."""
    try:
        return _reparse(RunFolder(path))
    except FileNotFoundError as error:
        lacks = f"it has no {Path(str(error.filename)).name}" if path.is_dir() else "it does not exist"
        raise RequestError(f"{path}: no run's folder: {lacks}") from None
    except (ValueError, OSError) as error:
        place = f"{Path(error.filename).name}: " if isinstance(error, OSError) and error.filename else ""
        raise RequestError(f"{path}: {place}{reason_of(error)}") from None


def _reparse(folder: RunFolder) -> Record:
    launch, outcome = folder.launch(), folder.outcome()
    if not folder.raw.is_dir():
        raise ValueError("its raw files are gone: there is nothing to parse")
    if outcome is None and launch.by_hand:
        if folder.is_held():
            raise ValueError("it still runs")
        return finalize_ended(folder)
    if outcome is None and is_alive(launch.runner) is not False:
        raise ValueError(f"its runner still lives, or is on another machine ({launch.runner.get('host')})")
    record = collect(folder, launch, outcome)
    if launch.by_hand:
        record.doubts += folder.exits(folder.raw_files(Layout.parse(launch.layout)))[1]
    folder.replace(record)
    folder.reseal(RECORD, "run.json was written again by runner collect, from the raw files")
    return record


def _make(
    folder: RunFolder, most_bytes: float = math.inf, exits: list[NodeExit] | None = None
) -> tuple[Outcome, Record]:
    launch = folder.launch()
    layout = Layout.parse(launch.layout)
    raw = folder.raw_files(layout)
    if raw.bytes > most_bytes:
        raise ValueError(f"its raw files have {raw.bytes:,} bytes")
    reported, broken = folder.exits(raw)
    by_node = {ended.node: ended for ended in exits or reported}
    exits = [by_node.get(node) or NodeExit(node) for node in range(layout.nodes)]
    began = read_moment(launch.started)
    ended = datetime.fromtimestamp(max(raw.last_written, began.timestamp()), timezone.utc)
    outcome = Outcome(
        ended=ended.isoformat(timespec="milliseconds"),
        wall_seconds=(ended - began).total_seconds(),
        exits=exits,
        stopped_because=next((node.stopped_because for node in exits if node.stopped_because), None),
    )
    record = collect(folder, launch, outcome)
    record.doubts += broken
    return outcome, record
