"""Block -> what a reader of its table has to know: the notes below it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.report.published_rows import published_notes
from runner.report.utilization import utilization_notes

if TYPE_CHECKING:
    from runner.report.rows import Block, Row

_WEAK = (
    "weak scaling: the batch per process is fixed, so the global batch grows with the processes; the speed-up"
    " compares samples per second, not the same optimisation"
)


def notes(block: Block) -> list[str]:
    """Return the notes of a block, those about single rows first."""
    found = [note for row in block.rows for note in _of_row(row)]
    if block.first.scaling == "weak" and len({row.first.global_batch_size for row in block.rows}) > 1:
        found.append(_WEAK)
    found += [*_bytes_moved(block), *_load(block), *utilization_notes(block)]
    return [*found, *_skipped(block), *published_notes(block)]


def _of_row(row: Row) -> list[str]:
    """Say of a row's runs which are not complete or doubtful, which nobody supervised, and if they had the cores."""
    found = []
    name = row.first.cell
    for run in row.runs:
        if run.status != "completed":
            found.append(f"{name}: {run.status.replace('_', ' ')}: {run.reason or 'no reason known'} ({run.path})")
        elif not run.seconds:
            found.append(f"{name}: completed without {run.measure} ({run.path})")
        if run.doubts:
            found.append(f"{name}: doubtful: {'; '.join(run.doubts)} ({run.path})")
    if by_hand := sum(run.by_hand for run in row.runs):
        found.append(f"{name}: started by hand, so no runner supervised it: {by_hand} of {len(row.runs)} runs")
    if row.first.device == "cpu" and 0 < row.first.cores < row.first.processes:
        found.append(f"{name}: {row.first.processes} processes share {row.first.cores} cores")
    return found


def _bytes_moved(block: Block) -> list[str]:
    """Say what a step moves where programs are compared that move it in different ways."""
    moved = [(row.first.cell, row.mean("bytes_moved")) for row in block.rows]
    if "program" not in block.first.axes or not any(bytes_moved for _, bytes_moved in moved):
        return []
    each = "; ".join(f"{name}: {bytes_moved:,.0f}" for name, bytes_moved in moved if bytes_moved is not None)
    return [f"bytes that a step moves between devices (each run's events say how they were counted): {each}"]


def _load(block: Block) -> list[str]:
    """Say how busy the nodes were, as they reported once a second."""
    each = [f"{row.first.cell}: {_busy(row.load)}" for row in block.rows if row.load]
    return [f"load of a node while training, mean: {'; '.join(each)}"] if each else []


def _busy(load: dict[str, float]) -> str:
    words = {"cpu": "CPU {:.0f}%", "gpu": "GPU {:.0f}%"}
    said = [words[what].format(load[f"{what}_percent"]) for what in words if f"{what}_percent" in load]
    memory = {"memory_bytes": "memory {:.1f} GB", "gpu_memory_bytes": "GPU memory {:.1f} GB"}
    return ", ".join(said + [text.format(load[name] / 1e9) for name, text in memory.items() if name in load])


def _skipped(block: Block) -> list[str]:
    found = []
    for skip in block.definition.get("skip", []):
        if skip.get("when") in (None, block.first.device):
            cells = ", ".join(f"{key} {value}" for key, value in skip.items() if key not in ("why", "when"))
            found.append(f"left out: {cells}: {skip['why']}")
    return found
