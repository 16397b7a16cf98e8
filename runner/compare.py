"""Digests + published rows -> Rows and Notes: what was measured, what may be claimed, and why not."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from runner.claims import refusal
from runner.layout import Layout
from runner.statistics import Estimate, karp_flatt, ratio, typical

if TYPE_CHECKING:
    from runner.digest import Digest

_encoder = msgspec.json.Encoder(order="deterministic")


@dataclass
class Row:
    """One line of the summary: the complete runs of one cell, against the baseline of its block."""

    runs: list[Digest]
    complete: list[Digest]
    seconds: Estimate | None
    baseline: Row | None = None
    speedup: Estimate | None = None
    claimed: bool | str = "no complete run"
    published: list[dict[str, Any]] = field(default_factory=list)

    @property
    def any(self) -> Digest:
        """A run of this row, for what all of them share."""
        return self.runs[0]

    @property
    def efficiency(self) -> Estimate | None:
        """Speed-up over the number of processes."""
        return self.speedup.over(self.any.processes) if self.speedup else None

    @property
    def serial_fraction(self) -> float | None:
        """Karp and Flatt's metric of the speed-up."""
        return karp_flatt(self.speedup.value, self.any.processes) if self.speedup else None

    def mean(self, name: str) -> float | None:
        """Average a field over the complete runs."""
        values = [value for run in self.complete if (value := getattr(run, name)) is not None]
        return sum(values) / len(values) if values else None

    @property
    def load(self) -> dict[str, float]:
        """What the nodes told of themselves while they trained, averaged over the complete runs."""
        told = [run.load for run in self.complete if run.load]
        names = {name: None for one in told for name in one}
        return {name: sum(one.get(name, 0.0) for one in told) / len(told) for name in names}


@dataclass
class Block:
    """The rows that may be compared: one experiment on one target and one kind of hardware, with the same args."""

    rows: list[Row]
    definition: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def any(self) -> Digest:
        """A run of this block, for what all of them share."""
        return self.rows[0].any

    @property
    def newest(self) -> Digest:
        """The run whose definition speaks for the block."""
        return max((run for row in self.rows for run in row.runs), key=lambda run: run.started)


def compare(digests: list[Digest]) -> list[Block]:
    """Group runs into rows and blocks and compare each row with its block's baseline."""
    groups: dict[tuple[str | bytes, ...], dict[bytes, list[Digest]]] = defaultdict(lambda: defaultdict(list))
    for run in digests:
        place = (run.experiment, run.target, run.hardware)
        work = (run.scaling, run.measure, _key(run.args), _common_program(run))
        groups[place + work][_key([run.layout, run.axes])].append(run)
    return [Block(sorted(map(_row, cells.values()), key=_order)) for _, cells in sorted(groups.items())]


def judge(block: Block, definition: dict[str, Any]) -> None:
    """Find each row's baseline, compute its speed-up, and say whether it may be claimed."""
    block.definition = definition
    published = (definition.get("published") or {}).get("rows", [])
    declared = definition.get("baseline") or {}
    by_cell = {_key({**row.any.axes, "layout": row.any.layout}): row for row in block.rows}
    for row in block.rows:
        # The one-process row with the same axes, or the cell that the definition declares.
        row.baseline = by_cell.get(_key({**row.any.axes, "layout": "1x1", **declared}))
        base = row.baseline
        if base is row and row.seconds:
            row.speedup = Estimate(1.0)
        elif base and base.seconds and row.seconds:
            row.speedup = ratio(_per_work(base, base), _per_work(row, base))
        row.claimed = refusal(row) or True
        row.published = [line for line in published if _names(line, row.any)]
    block.notes = _notes(block)


def _row(runs: list[Digest]) -> Row:
    runs = sorted(runs, key=lambda run: run.started)
    complete = [run for run in runs if run.status == "completed" and run.seconds]
    seconds = typical([run.seconds for run in complete if run.seconds]) if complete else None
    return Row(runs, complete, seconds)


def _per_work(row: Row, base: Row) -> list[float]:
    """Return a row's times, each divided by its work relative to the baseline's.

    Where the work is the same (strong scaling, or epochs over one data set) these are the times. Where it grows with
    the processes, their ratio is the scaled speed-up, and over p it is T1/Tp, the efficiency of weak scaling. The work
    is counted in trained samples; a weak program that does not tell them is taken at its word, so much per process.
    """
    counted = all(run.trained_samples for run in (*row.complete, *base.complete))
    work = [run.trained_samples if counted else run.processes if run.scaling == "weak" else 1 for run in row.complete]
    first = base.complete[0]
    unit = first.trained_samples if counted else first.processes if first.scaling == "weak" else 1
    return [run.seconds * unit / done for run, done in zip(row.complete, work, strict=True) if run.seconds]


def _names(line: dict[str, Any], run: Digest) -> bool:
    cell = {**run.axes, "layout": run.layout}
    return all(cell[key] == value for key, value in line.items() if key in cell)


def _notes(block: Block) -> list[str]:
    """Say what a reader of the table has to know."""
    notes = [note for row in block.rows for note in _row_notes(row)]
    if block.any.scaling == "weak" and len({row.any.global_batch_size for row in block.rows}) > 1:
        notes.append(
            "weak scaling: the batch per process is fixed, so the global batch grows with the processes; the speed-up"
            " compares samples per second, not the same optimisation"
        )
    notes += _moved(block)
    notes += _load(block)
    for skip in block.definition.get("skip", []):
        if skip.get("when") in (None, block.any.device):
            cells = ", ".join(f"{key} {value}" for key, value in skip.items() if key not in ("why", "when"))
            notes.append(f"left out: {cells}: {skip['why']}")
    if published := block.definition.get("published"):
        notes.append(f"published rows: {published['source']}")
        notes += [f"published: {row['hardware']}: {row['note']}" for row in published["rows"] if row.get("note")]
    return notes


def _row_notes(row: Row) -> list[str]:
    """Say of a row's runs which are not complete, which nobody followed, and whether they had the cores."""
    notes = []
    name = cell_name(row.any)
    for run in row.runs:
        if run.status != "completed":
            notes.append(f"{name}: {run.status.replace('_', ' ')}: {run.reason or 'no reason known'} ({run.path})")
        elif not run.seconds:
            notes.append(f"{name}: completed without {run.measure} ({run.path})")
    if late := sum(run.collected_afterwards for run in row.runs):
        notes.append(f"{name}: started by hand and collected afterwards: {late} of {len(row.runs)} runs")
    if row.any.device == "cpu" and 0 < row.any.cores < row.any.processes:
        notes.append(f"{name}: {row.any.processes} processes share {row.any.cores} cores")
    return notes


def _moved(block: Block) -> list[str]:
    """Say what a step moves where programs are compared that move it in different ways."""
    moved = [(cell_name(row.any), row.mean("bytes_moved")) for row in block.rows]
    if "program" not in block.any.axes or not any(bytes_moved for _, bytes_moved in moved):
        return []
    each = "; ".join(f"{name}: {bytes_moved:,.0f}" for name, bytes_moved in moved if bytes_moved is not None)
    return [f"bytes that a step moves between devices (each run's events say how they were counted): {each}"]


def _load(block: Block) -> list[str]:
    """Say how busy the nodes were, as told by themselves once a second."""
    each = [f"{cell_name(row.any)}: {_busy(row.load)}" for row in block.rows if row.load]
    return [f"load of a node while training, mean: {'; '.join(each)}"] if each else []


def _busy(load: dict[str, float]) -> str:
    words = {"cpu": "CPU {:.0f}%", "gpu": "GPU {:.0f}%"}
    said = [words[what].format(load[f"{what}_percent"]) for what in words if f"{what}_percent" in load]
    memory = {"memory_bytes": "memory {:.1f} GB", "gpu_memory_bytes": "GPU memory {:.1f} GB"}
    return ", ".join(said + [text.format(load[name] / 1e9) for name, text in memory.items() if name in load])


def cell_name(run: Digest) -> str:
    """Name a row within its block: its layout and axes."""
    return " ".join([run.layout, *(str(value) for value in run.axes.values())])


def _common_program(run: Digest) -> str:
    """Name the program, unless it is one of the axes and so differs between the rows of a block."""
    return "" if "program" in run.axes else run.program


def _order(row: Row) -> tuple[object, ...]:
    run = row.any
    return (run.processes, _nodes(run.layout), run.layout, [str(value) for value in run.axes.values()])


@cache
def _nodes(layout: str) -> int:
    return Layout.parse(layout).nodes


def _key(value: object) -> bytes:
    """Encode a value so that equal means equal."""
    return _encoder.encode(value)
