"""Expand an experiment into its runs: the cells of the matrix, and their repeats in order."""

import shlex
from dataclasses import dataclass
from typing import Any

from runner.core.errors import RequestError
from runner.core.layout import Layout
from runner.core.text import one_line
from runner.definitions.args import DEVICES, THREADS
from runner.definitions.choices import Selection, read_changes, read_layouts, read_only
from runner.definitions.definition import Experiment, identity
from runner.definitions.environment import PREFIX, assignments, read_words, variables_of
from runner.definitions.program import Program
from runner.records.schema import Side


@dataclass(frozen=True)
class Cell:
    """One point of the matrix: a layout, a program, and every arg passed to it."""

    layout: Layout
    program: Program
    axes: dict[str, Any]
    args: dict[str, Any]

    def command(self) -> str:
        """Return the command that every node runs, quoted for a shell."""
        words = ["torchrun", *self.program.words, *self.program.argv(self.args)]
        return " ".join([*assignments(self.args), shlex.join(words)])

    @property
    def threads_per_process(self) -> int:
        """The CPU threads of one process: the arg `threads`, by default 1."""
        told = variables_of(self.args).get("OMP_NUM_THREADS", "")
        return int(told) if told.isascii() and told.isdecimal() and int(told) else _positive(self.args.get(THREADS))

    @property
    def devices_per_process(self) -> int:
        """The devices of one process: the arg `devices`, by default 1."""
        return _positive(self.args.get(DEVICES))

    def __str__(self) -> str:
        return cell_name(str(self.layout), self.axes)


@dataclass(frozen=True)
class Run:
    """One execution of a cell. `repeat` counts from 1. `side` is A or B in a comparison.

    If `observed`, the kit measures inside a script (trainkit/observer). The kit's own programs report their figures
    themselves.
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
        """The run's name for messages: the cell, preceded by A or B in a comparison."""
        return f"{self.side.name}: {self.cell}" if self.side else str(self.cell)


@dataclass(frozen=True)
class Plan:
    """The runs in order, their cells, and the skipped cells with reasons."""

    runs: tuple[Run, ...]
    cells: tuple[Cell, ...]
    skipped: tuple[tuple[str, str], ...]


def make_plan(experiment: Experiment, selection: Selection) -> Plan:
    """Select the cells, apply `--set arg=value`, and interleave the repeats. Raises RequestError if no cell is left.

    Odd repeats run the cells forwards, even repeats backwards. A drift of the machine's speed thus favours no cell.
    """
    device = selection.device
    layouts, chosen = read_layouts(experiment, selection.layouts), read_only(experiment, selection.only)
    changed = read_changes(experiment, selection.changes) | read_words(selection.variables)
    if both := changed.keys() & experiment.matrix.keys():
        name = min(both)
        raise RequestError(f"'{name}' is an axis of {experiment.name}; choose its values with --only {name}=...")
    cells, skipped = [], []
    for point, why in experiment.cells(device, layouts):
        if any(identity(point[axis]) not in values for axis, values in chosen.items()):
            continue
        cell = _cell(experiment, point, changed, device)
        if why is None:
            cells.append(cell)
        else:
            skipped.append((str(cell), why))
    if not cells:
        reasons = "; ".join(dict.fromkeys(why for _, why in skipped))
        raise RequestError(one_line(f"{experiment.path}: no cell is left to run" + (f": {reasons}" if reasons else "")))
    repeats = selection.repeat or experiment.repeat
    runs = [
        Run(experiment, cell, number, repeats, device, observed=selection.observed)
        for number in range(1, repeats + 1)
        for cell in (cells if number % 2 else reversed(cells))
    ]
    return Plan(tuple(runs), tuple(cells), tuple(skipped))


def cell_name(layout: str, axes: dict[str, Any]) -> str:
    """Return the name of a cell in the table: its layout and its axes."""
    return " ".join([layout, *(f"{axis}={value}" for axis, value in axes.items())])


def _positive(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 1


def _cell(experiment: Experiment, point: dict[str, Any], changed: dict[str, Any], device: str) -> Cell:
    axes = {axis: value for axis, value in point.items() if axis != "layout"}
    program = experiment.programs[axes.get("program", experiment.program)]
    varied = {axis: value for axis, value in axes.items() if axis != "program"}
    variables = {f"{PREFIX}{name}": value for name, value in experiment.env.items()}
    args = {**experiment.args, **experiment.program_args.get(program.name, {}), **variables, **varied, **changed}
    declared = {"scaling": experiment.scaling, "device": device}
    args |= {key: value for key, value in declared.items() if value and key in program.declares}
    return Cell(Layout.parse(point["layout"]), program, axes, args)
