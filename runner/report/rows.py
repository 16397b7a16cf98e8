"""Define the cells, rows and blocks of the summary."""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import msgspec

from runner.core.layout import Layout
from runner.records.observed import SAMPLE_SECONDS
from runner.report.run_summary import RunSummary
from runner.report.statistics import Difference, Estimate, karp_flatt, typical

INPUT_SHARE = 0.25
"""The input is named as the limit if this share of the training is spent waiting for batches."""
LOST_SHARE = 0.2
"""A cause is named if a cell has more processes than its baseline, and loses this share of the baseline's MFU."""
BUSY = 0.5
"""Computing is named as the limit if the MFU is at least this share."""


@dataclass(frozen=True)
class CellRuns:
    """The runs of a cell, oldest first.

    `complete` has the complete runs, and `seconds` their typical time. `copies` are further records of the same runs,
    and are ignored.
    """

    runs: tuple[RunSummary, ...]
    complete: tuple[RunSummary, ...]
    seconds: Estimate | None
    copies: tuple[RunSummary, ...] = ()

    @property
    def first(self) -> RunSummary:
        """The oldest run. It is read for properties that all runs share."""
        return self.runs[0]

    def mean(self, name: str) -> float | None:
        """Average a field over the complete runs that have a value. Returns None if no run has a value."""
        values = [value for run in self.complete if (value := getattr(run, name)) is not None]
        return sum(values) / len(values) if values else None

    @property
    def load(self) -> dict[str, float]:
        """The load of the nodes while training. Each figure is averaged over the complete runs that report it."""
        names = dict.fromkeys(name for run in self.complete for name in run.load)
        return {name: fmean(run.load[name] for run in self.complete if name in run.load) for name in names}

    @property
    def sources(self) -> dict[str, str]:
        """The place where each figure of the newest run was read. Figures from the kit's events are left out."""
        run = (self.complete or self.runs)[-1]
        return {name: f"{run.path}/{place}" if ":" in place else place for name, place in run.sources.items()}


@dataclass(frozen=True)
class Row(CellRuns):
    """A row of the summary: the runs of a cell compared with their baseline.

    `claimed` is True, or the reason why the speed-up may not be claimed. The speed-up and its interval come from
    `difference`. `adjusted_p` is the p-value after Holm's correction, or None if the claim was refused before testing.
    """

    baseline: CellRuns | None = None
    speedup: Estimate | None = None
    claimed: bool | str = "no complete run"
    published: tuple[dict[str, Any], ...] = ()
    difference: Difference | None = None
    adjusted_p: float | None = None

    @property
    def is_baseline(self) -> bool:
        """Whether the row is its own baseline."""
        return self.baseline is not None and self.baseline.first is self.first

    @property
    def scaling(self) -> str | None:
        """The kind of scaling, "strong" or "weak". It is declared or derived from the batches, and None if unknown."""
        return scaling_of(self, self.baseline)

    @property
    def rate(self) -> Estimate | None:
        """The samples per second of all processes together; None if the times are not times per sample."""
        return self.seconds.inverse() if self.seconds and self.first.measure == SAMPLE_SECONDS else None

    @property
    def efficiency(self) -> Estimate | None:
        """The speed-up divided by the ratio of the process counts of the row and its baseline."""
        if self.speedup is None or self.baseline is None:
            return None
        return self.speedup.over(self.first.processes / self.baseline.first.processes)

    @property
    def serial_fraction(self) -> float | None:
        """Karp and Flatt's metric. It is None if the speed-up is below 1, or if the baseline has several processes."""
        if self.speedup is None or self.speedup.value < 1 or not self.baseline or self.baseline.first.processes > 1:
            return None
        return karp_flatt(self.speedup.value, self.first.processes)

    @property
    def limit(self) -> str:
        """The limit of the row's speed, such as `input`, with the figure that shows this limit. It is "" if unknown.

        Batches are made while a GPU computes, so the input is a limit only if the GPU was idle at times. Communication
        and slower computing can be distinguished only if the times of each rank are known.
        """
        mfu, share = self.mean("mfu"), self.mean("input_share")
        idle = self.first.device == "cpu" or self.load.get("gpu_percent", 100.0) < 100 * (1 - INPUT_SHARE)
        if share is not None and share >= INPUT_SHARE and idle:
            return f"input, {share:.0%} of the training is spent waiting for batches"
        if mfu is None:
            return ""
        base = self.baseline
        before = base.mean("mfu") if base and base.first.processes < self.first.processes else None
        if base and before and self._has_devices_of_its_own() and mfu <= (1 - LOST_SHARE) * before:
            exchange = self.mean("exchange_share")
            if exchange is None:
                cause = "communication or slower computing"
            elif exchange >= (before - mfu) / before / 2:
                cause = f"communication, or waiting for each other, {exchange:.0%} of the training"
            else:
                cause = f"slower computing, communication {exchange:.0%}"
            return f"{cause}: MFU {mfu:.0%}, {before:.0%} with {processes(base.first.processes)}"
        return f"compute, MFU {mfu:.0%}" if mfu >= BUSY else ""

    def _has_devices_of_its_own(self) -> bool:
        run = self.first
        if any(each.disturbed for each in (*self.complete, *(self.baseline.complete if self.baseline else ()))):
            return False
        return run.device != "cpu" or run.processes <= min(run.cores, Layout.parse(run.layout).world_size)


@dataclass(frozen=True)
class Block:
    """Rows that may be compared: one experiment on one target and kind of hardware, with the same args."""

    rows: tuple[Row, ...]
    definition: dict[str, Any] = field(default_factory=dict)

    @property
    def first(self) -> RunSummary:
        """A run of the first row. It is read for properties that all rows share."""
        return self.rows[0].first

    @property
    def axes(self) -> list[str]:
        """The names of the axes of all rows. A row may lack an axis: a row with one node has no link."""
        return list(dict.fromkeys(axis for row in self.rows for axis in row.first.axes))


def cell_runs(runs: list[RunSummary]) -> CellRuns:
    """Sort the runs of a cell by their start. If a record has copies, keep one copy, and set aside the others.

    The newest complete copy is kept, or the newest copy if none is complete.
    """
    copies: dict[str, list[RunSummary]] = defaultdict(list)
    for run in sorted(runs, key=_age):
        copies[run.id or run.path].append(run)
    ordered = sorted((max(own, key=lambda run: (is_complete(run), run.started)) for own in copies.values()), key=_age)
    complete = tuple(run for run in ordered if is_complete(run))
    seconds = typical([run.seconds for run in complete if run.seconds]) if complete else None
    counted = {id(run) for run in ordered}
    return CellRuns(tuple(ordered), complete, seconds, tuple(run for run in runs if id(run) not in counted))


def scaling_of(cell: CellRuns, base: CellRuns | None) -> str | None:
    """Return "strong" or "weak". For scripts that declare neither, compare batch sizes. Returns None if unknown."""
    if cell.first.scaling or base is None or base.first is cell.first or cell.first.measure != SAMPLE_SECONDS:
        return cell.first.scaling
    runs = [*cell.complete, *base.complete]
    batches = {run.global_batch_size for run in runs}
    if 0 in batches:
        return None
    if len(batches) == 1:
        return "strong"
    return "weak" if len({run.global_batch_size / run.processes for run in runs}) == 1 else None


def is_complete(run: RunSummary) -> bool:
    """Return whether a run completed and has a time."""
    return run.status == "completed" and bool(run.seconds)


def timed_alike(
    runs: Iterable[RunSummary], cell_of: Callable[[RunSummary], Hashable] = lambda run: run.cell
) -> list[RunSummary]:
    """Give all runs the same kind of time.

    If none of a cell's completed runs counted its samples, all runs are returned with wall times. Otherwise all runs
    are returned unchanged.
    """
    runs = list(runs)
    counted: dict[Hashable, bool] = defaultdict(bool)
    for run in runs:
        if run.status == "completed" and run.measure == SAMPLE_SECONDS:
            counted[cell_of(run)] |= run.seconds is not None
    if all(counted.values()):
        return runs
    return [msgspec.structs.replace(run, measure="wall_seconds", seconds=run.wall_seconds) for run in runs]


def _age(run: RunSummary) -> tuple[str, str]:
    return run.started, run.path


def copies_note(copies: Collection[RunSummary]) -> str:
    """Return a note with the number of ignored copies and the path of one copy."""
    count = len(copies)
    where = min(run.path for run in copies)
    return f"{count} {'copy of a run' if count == 1 else 'copies of runs'} ignored, the first: {where}"


def ending(run: RunSummary) -> str:
    """Describe how a run ended: the status, the reason for it, and the run's path."""
    return f"{run.status.replace('_', ' ')}: {run.reason or 'reason unknown'} ({run.path})"


def processes(number: int) -> str:
    """Write a number of processes in words, for example "one process"."""
    return "one process" if number == 1 else f"{number} processes"
