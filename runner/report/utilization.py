"""What part of the devices' peak a row used (MFU), and what limits it, as far as the figures say."""

import re

from runner.core.layout import Layout
from runner.report.cells import processes
from runner.report.rows import Block, Row

INPUT_SHARE = 0.25
"""Part of the training that waits for batches, from which on the input is named."""
LOST_SHARE = 0.2
"""Part of the baseline's utilization that more processes than its own lose, from which on the cause is named."""
BUSY = 0.5
"""Part of the peak from which on the computing is named."""


def limit(row: Row) -> str | None:
    """Return `input`, `communication`, `slower computing` or `compute`, or None where no figure supports any.

    Without the time of each rank it is either of the two in the middle.
    """
    return re.split("[,:]", _words(row))[0] or None


def _words(row: Row) -> str:
    """Return what limits a row, with the figure that it follows from; nothing where no figure supports it.

    On a GPU batches are made while it computes, so the input is named only if the GPU had time left.
    """
    mfu, share = row.mean("mfu"), row.mean("input_share")
    idle = row.first.device == "cpu" or row.load.get("gpu_percent", 100.0) < 100 * (1 - INPUT_SHARE)
    if share is not None and share >= INPUT_SHARE and idle:
        return f"input, {share:.0%} of the training waits for batches"
    if mfu is None:
        return ""
    fewer = row.baseline.first.processes if row.baseline else row.first.processes
    before = row.baseline.mean("mfu") if row.baseline else None
    if row.first.processes > fewer and before and _devices_of_their_own(row) and mfu <= (1 - LOST_SHARE) * before:
        exchange = row.mean("exchange_share")
        if exchange is None:
            cause = "communication or slower computing"
        elif exchange >= (before - mfu) / before / 2:
            cause = f"communication, or waiting for each other, {exchange:.0%} of the training"
        else:
            cause = f"slower computing, communication {exchange:.0%}"
        return f"{cause}: MFU {mfu:.0%}, {before:.0%} with {processes(fewer)}"
    return f"compute, MFU {mfu:.0%}" if mfu >= BUSY else ""


def _devices_of_their_own(row: Row) -> bool:
    """Return whether no two processes share a core, nothing else took it, and no CPU stands in for several devices."""
    run = row.first
    if any(each.disturbed for each in (*row.complete, *(row.baseline.complete if row.baseline else ()))):
        return False
    return run.device != "cpu" or (run.processes <= run.cores and run.processes == Layout.parse(run.layout).world_size)


def utilization_notes(block: Block) -> list[str]:
    """Return what limits the rows of a block, each with the figure that it follows from."""
    said = [f"{row.first.cell}: {words}" for row in block.rows if (words := _words(row))]
    return [f"what limits: {'; '.join(said)}"] if said else []
