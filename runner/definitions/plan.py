"""Experiment -> Runs: the cells of the matrix, what is skipped, and the repeats in the order they are run."""

import shlex
from dataclasses import dataclass
from typing import Any

from runner.core.errors import RequestError
from runner.core.layout import Layout
from runner.core.text import one_line
from runner.definitions.args import DEVICES, THREADS
from runner.definitions.axes import identity
from runner.definitions.choices import read_changes, read_layouts, read_only
from runner.definitions.consistency import refused_layout
from runner.definitions.definition import Experiment
from runner.definitions.program import Program
from runner.definitions.skips import Skip
from runner.records.schema import Side

MOST_RUNS = 100_000


@dataclass(frozen=True)
class Cell:
    """One point of the matrix: a layout, the program, and every arg as it is passed."""

    layout: Layout
    program: Program
    axes: dict[str, Any]
    args: dict[str, Any]

    def command(self) -> str:
        """Write the command of every node, in the form that a shell takes."""
        return shlex.join(["torchrun", *self.program.words, *self.program.argv(self.args)])

    @property
    def threads_per_process(self) -> int:
        """CPU threads of one process: one, unless the program is given another number."""
        return _positive(self.args.get(THREADS))

    @property
    def devices_per_process(self) -> int:
        """Devices of one process: one, unless the program spreads over several."""
        return _positive(self.args.get(DEVICES))

    def __str__(self) -> str:
        return cell_name(str(self.layout), self.axes)


@dataclass(frozen=True)
class Run:
    """One execution of one cell; `repeat` counts from 1, and `side` is that of a comparison that it belongs to.

    A script is `observed` from inside (trainkit/observer); the kit's own programs report themselves.
    """

    experiment: Experiment
    cell: Cell
    repeat: int
    repeats: int
    device: str
    side: Side | None = None
    observed: bool = True

    @property
    def name(self) -> str:
        """Name the run for a person: its cell, and its side if it has one."""
        return f"{self.side.name}: {self.cell}" if self.side else str(self.cell)


@dataclass(frozen=True)
class Plan:
    """What would be run, in order, and what is left out and why."""

    runs: tuple[Run, ...]
    cells: tuple[Cell, ...]
    skipped: tuple[tuple[str, Skip], ...]


def make_plan(
    experiment: Experiment,
    *,
    device: str,
    layouts: list[str] | None = None,
    only: list[str] | None = None,
    changes: list[str] | None = None,
    repeat: int | None = None,
) -> Plan:
    """Choose the cells that agree with every `--only axis=value`, apply `--set arg=value`, and interleave the repeats.

    The repeats go through the cells forwards and backwards in turn, so that a machine that slowly warms up or slows
    down favours no cell. Other layouts may stand in for those of the definition.
    """
    programs = experiment.programs()
    chosen = read_only(experiment, only or [])
    changed = read_changes(experiment, changes or [], programs)
    cells, skipped = [], []
    others = read_layouts(experiment, layouts)
    if wrong := refused_layout(experiment, others or ()):
        raise RequestError(wrong)
    for point, skip in experiment.cells(device, others):
        if any(identity(point[axis]) not in values for axis, values in chosen.items()):
            continue
        if skip is None:
            cells.append(_cell(experiment, point, changed, device, programs))
        else:
            axes = {axis: value for axis, value in point.items() if axis != "layout"}
            skipped.append((cell_name(point["layout"], axes), skip))
    if not cells:
        reasons = "; ".join(dict.fromkeys(skip.why for _, skip in skipped))
        raise RequestError(one_line(f"{experiment.path}: no cell is left to run" + (f": {reasons}" if reasons else "")))
    repeats = experiment.repeat if repeat is None else repeat
    if len(cells) * repeats > MOST_RUNS:
        asked = f"{len(cells):,} cells x {repeats:,} repeats"
        most = f"{MOST_RUNS:,} runs are the most: choose cells with --only"
        raise RequestError(f"{one_line(experiment.path)}: {asked}; {most}")
    runs = [
        Run(experiment, cell, number, repeats, device)
        for number in range(1, repeats + 1)
        for cell in (cells if number % 2 else reversed(cells))
    ]
    return Plan(tuple(runs), tuple(cells), tuple(skipped))


def cell_name(layout: str, axes: dict[str, Any]) -> str:
    """Name a cell as the table does: its layout and its axes."""
    return " ".join([layout, *(f"{axis}={value}" for axis, value in axes.items())])


def _positive(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 1


def _cell(
    experiment: Experiment, point: dict[str, Any], changed: dict[str, Any], device: str, programs: dict[str, Program]
) -> Cell:
    """Resolve a point of the matrix; what the definition declares is passed to a program that takes it."""
    program = programs[point.get("program", experiment.program)]
    axes = {axis: value for axis, value in point.items() if axis != "layout"}
    own = experiment.program_args.get(program.name, {})
    args = {**experiment.args, **own, **{axis: value for axis, value in axes.items() if axis != "program"}, **changed}
    declared = {**({"scaling": experiment.scaling} if experiment.scaling else {}), "device": device}
    args |= {key: value for key, value in declared.items() if key in program.declares}
    return Cell(Layout.parse(point["layout"]), program, axes, args)
