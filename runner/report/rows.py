"""The lines of the summary: Row and Block, which are values and never change."""

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
"""Part of the training spent waiting for batches from which the input is named as the limit."""
LOST_SHARE = 0.2
"""Part of the baseline's utilization that more processes have to lose before the cause is named."""
BUSY = 0.5
"""Part of the peak from which the computing is named as the limit."""


@dataclass(frozen=True)
class CellRuns:
    """All runs of one cell, the oldest first, and the complete ones among them with their typical seconds.

    `copies` are further records of the same runs; they count for nothing.
    """

    runs: tuple[RunSummary, ...]
    complete: tuple[RunSummary, ...]
    seconds: Estimate | None
    copies: tuple[RunSummary, ...] = ()

    @property
    def first(self) -> RunSummary:
        """The oldest run, for what all of them share."""
        return self.runs[0]

    def mean(self, name: str) -> float | None:
        """Average a field over the complete runs."""
        values = [value for run in self.complete if (value := getattr(run, name)) is not None]
        return sum(values) / len(values) if values else None

    @property
    def load(self) -> dict[str, float]:
        """What the nodes reported while they trained: each figure averaged over the complete runs that have it."""
        names = dict.fromkeys(name for run in self.complete for name in run.load)
        return {name: fmean(run.load[name] for run in self.complete if name in run.load) for name in names}

    @property
    def sources(self) -> dict[str, str]:
        """Where the figures of the newest run are from, if they are not from the kit's own events."""
        run = (self.complete or self.runs)[-1]
        return {name: f"{run.path}/{place}" if ":" in place else place for name, place in run.sources.items()}


@dataclass(frozen=True)
class Row(CellRuns):
    """One line of the summary: the runs of one cell against the baseline of their block.

    `claimed` is True, or the reason why the speed-up may not be claimed. `difference` is what the speed-up and its
    interval come from, `adjusted_p` its p-value after Holm's correction, where the claim depends on that alone.
    """

    baseline: CellRuns | None = None
    speedup: Estimate | None = None
    claimed: bool | str = "no complete run"
    published: tuple[dict[str, Any], ...] = ()
    difference: Difference | None = None
    adjusted_p: float | None = None

    @property
    def is_baseline(self) -> bool:
        """Return whether it is its own baseline."""
        return self.baseline is not None and self.baseline.first is self.first

    @property
    def scaling(self) -> str | None:
        """What the definition declares, or what was seen: the batch of a step, or that of a process, is the same."""
        return scaling_of(self, self.baseline)

    @property
    def rate(self) -> Estimate | None:
        """Samples per second of all processes together, if these are compared."""
        return self.seconds.inverse() if self.seconds and self.first.measure == SAMPLE_SECONDS else None

    @property
    def efficiency(self) -> Estimate | None:
        """Speed-up over how many times the processes of its baseline there are."""
        if self.speedup is None or self.baseline is None:
            return None
        return self.speedup.over(self.first.processes / self.baseline.first.processes)

    @property
    def serial_fraction(self) -> float | None:
        """Karp and Flatt's metric of the speed-up over one process alone; a slow-down has no serial part to show."""
        if self.speedup is None or self.speedup.value < 1 or not self.baseline or self.baseline.first.processes > 1:
            return None
        return karp_flatt(self.speedup.value, self.first.processes)

    @property
    def limit(self) -> str:
        """What limits it (`input`, `communication`, ...) with the figure that shows it; empty if no figure does.

        On a GPU batches are made while it computes, so the input is named only if the GPU had time left. Without the
        time of each rank, communication and slower computing cannot be told apart.
        """
        mfu, share = self.mean("mfu"), self.mean("input_share")
        idle = self.first.device == "cpu" or self.load.get("gpu_percent", 100.0) < 100 * (1 - INPUT_SHARE)
        if share is not None and share >= INPUT_SHARE and idle:
            return f"input, {share:.0%} of the training waits for batches"
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
        """Return whether no two processes share a core, nothing else took it, and no CPU stands in for devices."""
        run = self.first
        if any(each.disturbed for each in (*self.complete, *(self.baseline.complete if self.baseline else ()))):
            return False
        return run.device != "cpu" or run.processes <= min(run.cores, Layout.parse(run.layout).world_size)


@dataclass(frozen=True)
class Block:
    """The rows that may be compared: one experiment on one target and one kind of hardware, with the same args."""

    rows: tuple[Row, ...]
    definition: dict[str, Any] = field(default_factory=dict)

    @property
    def first(self) -> RunSummary:
        """A run of the first row, for what all rows share."""
        return self.rows[0].first

    @property
    def axes(self) -> list[str]:
        """The names of the rows' axes; a row may lack one, for example the link of a run on one node."""
        return list(dict.fromkeys(axis for row in self.rows for axis in row.first.axes))


def cell_runs(runs: list[RunSummary]) -> CellRuns:
    """Sort the runs of one cell by their start, each once; a copy of a record is no repeat.

    Of its copies the complete one counts, else the last attempt.
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
    """Return the kind of scaling that is declared, or of scripts the one that their batches show."""
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
    """Return whether a run came to its end and has a time."""
    return run.status == "completed" and bool(run.seconds)


def timed_alike(
    runs: Iterable[RunSummary], cell_of: Callable[[RunSummary], Hashable] = lambda run: run.cell
) -> list[RunSummary]:
    """Return runs by the runner's clock if there is a cell whose samples were counted in none of its runs."""
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
    """Return how many copies lie beside the runs of a cell, and where one does."""
    count = len(copies)
    where = min(run.path for run in copies)
    return f"{count} {'copy of a run does' if count == 1 else 'copies of runs do'} not count, the first: {where}"


def ending(run: RunSummary) -> str:
    """Return how a run ended, why, and where its record lies."""
    return f"{run.status.replace('_', ' ')}: {run.reason or 'no reason known'} ({run.path})"


def processes(number: int) -> str:
    """Write a number of processes as a sentence does."""
    return "one process" if number == 1 else f"{number} processes"
