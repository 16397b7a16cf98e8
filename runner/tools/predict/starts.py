"""The runs of a results folder -> what a prediction starts from, for each cell of one process."""

from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from runner.core.errors import RequestError
from runner.core.layout import Layout
from runner.definitions.axes import identity
from runner.records.folder import RunFolder
from runner.records.schema import Record
from runner.report.compare import key_of
from runner.report.rows import is_complete, once
from runner.report.run_summary import RunSummary
from runner.report.target_axes import at_layout
from runner.tools.predict import MEASURE
from runner.tools.predict.base import Base, base_of
from runner.tools.predict.communication import ACCUMULATE, PLAIN, Communication
from runner.tools.predict.place import Measured, measured_of

CHOICE = "communication"
NUMBERS = {"powersgd": "powersgd_rank", "local-sgd": "sync_every", "diloco": "sync_every"}
CHOICES = (CHOICE, ACCUMULATE, *sorted(set(NUMBERS.values())))
"""Arguments of a program that say how its processes exchange: their values are predicted, not told apart."""
MOST_RUNS = 12
"""Records that are read of one cell, the newest ones."""


class Wanted(NamedTuple):
    """Which runs are looked for: identities of values of their axes, their target and its options; empty is any.

    `place` is what the target made of its nodes and of what lies between them, as `place_of` says; None leaves it open.
    """

    axes: Mapping[str, set[object]] = {}
    target: str = ""
    options: Mapping[str, str] = {}
    place: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Start:
    """A cell of one process and all that is known around it.

    `why` says why there is no base; `alone` are its runs, disturbed ones and those of every communication included, and
    `others` the runs of the same program with the same args in several processes. `place` and `network_target` are
    where the network was measured.
    """

    name: str
    base: Base | None
    why: str
    measured: list[Measured]
    alone: tuple[RunSummary, ...]
    others: tuple[RunSummary, ...]
    place: Mapping[str, str]
    network_target: str = ""


class Reader:
    """Reads the records that a prediction starts from, of all `runs` in the folder `results`."""

    def __init__(self, results: Path, runs: list[RunSummary]) -> None:
        self._results = results
        self._runs = [run for run in once(runs) if is_complete(run) and not run.doubts]
        self._kinds = {axis: kind for run in self._runs for axis, kind in run.option_axes.items()}
        self._records: dict[str, Record | None] = {}

    def starts(self, experiment: str, wanted: Wanted, assumed_bytes: float | None = None) -> list[Start]:
        """Return one start for each cell of one process: of the newest runs with their args, on their hardware."""
        fitting = [run for run in self._runs if run.experiment == experiment and _fits(run, wanted)]
        alone = [run for run in fitting if run.processes == 1]
        if not alone:
            return []
        newest = max(alone, key=lambda run: (run.started, run.path))
        cells: dict[bytes, list[RunSummary]] = defaultdict(list)
        for run in alone:
            if _block(run) == _block(newest):
                cells[key_of(_axes(run))].append(run)
        return [self._start(own, fitting, wanted, assumed_bytes) for _, own in sorted(cells.items())]

    def _start(
        self, own: list[RunSummary], fitting: list[RunSummary], wanted: Wanted, assumed_bytes: float | None
    ) -> Start:
        plain = [run for run in own if str(communication_of(run)) == PLAIN] or own
        # One process sends nothing: options of the target that say how, as a slower link, need not be its own.
        pairs = self._read(plain, wanted.options) or self._read(plain, {})
        found = base_of(pairs, assumed_bytes) if pairs else "its one-process runs cannot be read again"
        first = plain[-1]
        network, place = self._network(first, wanted)
        several = (run for run in fitting if run.processes > 1 and _block(run) == _block(first))
        alike = (run for run in several if _axes(run) == _axes(first))
        others = tuple(run for run in alike if place is None or place_of(run) == place_at(place, run, self._kinds))
        name = " ".join([first.experiment, *(f"{axis}={value}" for axis, value in _axes(first).items())])
        base, why = (found, "") if isinstance(found, Base) else (None, found)
        measured, target = (measured_of(network), network[-1][0].target) if network else ([], "")
        return Start(name, base, why, measured, tuple(own), others, place or {}, target)

    def _network(
        self, base: RunSummary, wanted: Wanted
    ) -> tuple[list[tuple[RunSummary, Record]], Mapping[str, str] | None]:
        """Read the network runs, and say where they were: on the same target if there are any, in the newest place.

        One of several nodes counts as newer than one of a single node, which has no link.
        """
        alike = [
            run
            for run in self._runs
            if run.measure == MEASURE
            and run.device == base.device
            and Layout.parse(run.layout).world_size > 1
            and wanted.target in ("", run.target)
            and all(base.axes.get(axis, value) == value for axis, value in _axes(run).items())
            and (wanted.place is None or place_of(run) == place_at(wanted.place, run, self._kinds))
        ]
        for chosen in ([run for run in alike if run.target == base.target], alike):
            settings: dict[tuple[object, ...], list[RunSummary]] = defaultdict(list)
            for run in chosen:
                key = (run.target, run.layout, *place_of(run).items())
                settings[key].append(run)
            pairs = []
            for own in settings.values():
                read = self._read(own, wanted.options)
                # A link may be one of the options that the target was given: the newest ones count.
                pairs += [pair for pair in read if pair[1].launch.options == read[-1][1].launch.options]
            if pairs:
                runs = (run for run, _ in pairs)
                newest = max(runs, key=lambda run: (Layout.parse(run.layout).nodes > 1, run.started, run.path))
                place = place_of(newest) if wanted.place is None else wanted.place
                there = [pair for pair in pairs if pair[0].target == newest.target]
                return [pair for pair in there if place_of(pair[0]) == place_at(place, pair[0], self._kinds)], place
        return [], wanted.place

    def _read(self, runs: list[RunSummary], options: Mapping[str, str]) -> list[tuple[RunSummary, Record]]:
        """Return the newest runs with these options, the oldest first; disturbed ones only if there are no others."""
        found = []
        for run in sorted(runs, key=lambda run: (run.started, run.path))[-MOST_RUNS:]:
            if run.path not in self._records:
                try:
                    self._records[run.path] = RunFolder(self._results / run.path).read()
                except (OSError, ValueError):
                    self._records[run.path] = None
            record = self._records[run.path]
            if record and all(str(record.launch.options.get(name)) == value for name, value in options.items()):
                found.append((run, record))
        return [pair for pair in found if not pair[0].disturbed] or found


def communication_of(run: RunSummary) -> Communication:
    """Return how a run exchanges, by its arguments; the plain way if it does not say."""
    values: dict[str, Any] = {**run.args, **run.axes}
    kind, parts = values.get(CHOICE), values.get(ACCUMULATE)
    accumulate = parts if isinstance(parts, int) and parts > 0 else 1
    if not isinstance(kind, str) or kind == PLAIN:
        return Communication(accumulate=accumulate)
    try:
        usual = Communication.parse(kind)
    except RequestError:
        return Communication(accumulate=accumulate)
    count = values.get(NUMBERS.get(kind, ""))
    return Communication(kind, count if isinstance(count, int) and count > 0 else usual.number, accumulate)


def _block(run: RunSummary) -> tuple[object, ...]:
    """Return what runs share that may be compared, however they exchange."""
    args = {name: value for name, value in run.args.items() if name not in CHOICES}
    program = "" if "program" in run.axes else run.program
    return (run.target, run.hardware, run.scaling, run.measure, key_of(args), program, run.side or ())


def place_of(run: RunSummary) -> dict[str, str]:
    """Return the axes that a run has from its target, for example the link between its nodes and the cores of each."""
    return {axis: str(run.axes[axis]) for axis in run.option_axes if axis in run.axes}


def place_at(place: Mapping[str, str], run: RunSummary, kinds: Mapping[str, str]) -> dict[str, str]:
    """Return what is left of a place at the layout of a run: one node has no link."""
    left = at_layout({**place, "layout": run.layout}, kinds)
    return {axis: value for axis, value in left.items() if axis != "layout"}


def _axes(run: RunSummary) -> dict[str, Any]:
    """Return a run's axes, of those that its target gave it what is left with one process."""
    axes = at_layout({**run.axes, "layout": "1x1"}, run.option_axes)
    return {axis: value for axis, value in axes.items() if axis not in (*CHOICES, "layout")}


def _fits(run: RunSummary, wanted: Wanted) -> bool:
    for axis, wished in wanted.axes.items():
        value = run.axes.get(axis, run.args.get(axis))
        if not isinstance(value, Hashable) or identity(value) not in wished:  # a list is no value of an axis
            return False
    return wanted.target in ("", run.target)
