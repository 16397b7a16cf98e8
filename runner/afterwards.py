"""Runs that nobody followed: what their launchers left is collected when somebody asks for it."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from runner.collect import collect
from runner.layout import Layout
from runner.schema import NodeExit, Outcome

if TYPE_CHECKING:
    from runner.record import RunFolder
    from runner.schema import Record


def collect_afterwards(folder: RunFolder) -> Record | None:
    """Collect a run that was started by hand, once it has ended, and keep its record; None while it still runs.

    A results folder that cannot be written to is read all the same. ValueError or OSError for one that is broken.
    """
    if folder.is_held():
        return None
    launch = folder.launch()
    began = datetime.fromisoformat(launch.started)
    ended = datetime.fromtimestamp(folder.last_written(), timezone.utc)
    known = {one.node: one for one in folder.exits()}
    exits = [known.get(node, NodeExit(node)) for node in range(Layout.parse(launch.layout).nodes)]
    outcome = Outcome(
        ended=ended.isoformat(timespec="milliseconds"),
        wall_seconds=max(0.0, (ended - began).total_seconds()),
        exits=exits,
        stopped_because=next((one.stopped_because for one in exits if one.stopped_because), None),
        collected_afterwards=True,
    )
    record = collect(folder, launch, outcome)
    with suppress(OSError):
        folder.keep_outcome(outcome)
        folder.finish(record)
    return record
