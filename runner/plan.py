"""Experiment -> Runs: the cells of the matrix, what is skipped, and the repeats in the order they are run."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runner import yamlfile
from runner.definition import LARGEST_WHOLE, RESERVED
from runner.errors import RequestError, did_you_mean, one_line
from runner.layout import Layout

if TYPE_CHECKING:
    from runner.definition import Experiment, Skip
    from runner.program import Program


@dataclass(frozen=True)
class Cell:
    """One point of the matrix: a layout, the program, and every arg as it is passed."""

    layout: Layout
    program: Program
    axes: dict[str, Any]
    args: dict[str, Any]

    def command(self) -> str:
        """Write what every node runs, as a person would type it."""
        return shlex.join(["torchrun", "-m", self.program.module, *self.program.argv(self.args)])

    def __str__(self) -> str:
        return _name(str(self.layout), self.axes)


@dataclass(frozen=True)
class Run:
    """One execution of one cell; `repeat` counts from 1."""

    experiment: Experiment
    cell: Cell
    repeat: int
    repeats: int
    device: str


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
    chosen = _only(experiment, only or [])
    changed = _changes(experiment, changes or [], programs)
    cells, skipped = [], []
    for point, skip in experiment.cells(device, _layouts(layouts)):
        if any(point[axis] not in values for axis, values in chosen.items()):
            continue
        if skip is None:
            cells.append(_cell(experiment, point, changed, device, programs))
        else:
            axes = {axis: value for axis, value in point.items() if axis != "layout"}
            skipped.append((_name(point["layout"], axes), skip))
    if not cells:
        reasons = "; ".join(dict.fromkeys(skip.why for _, skip in skipped))
        msg = f"{experiment.path}: no cell is left to run" + (f": {reasons}" if reasons else "")
        raise RequestError(msg)
    repeats = experiment.repeat if repeat is None else repeat
    runs = [
        Run(experiment, cell, number, repeats, device)
        for number in range(1, repeats + 1)
        for cell in (cells if number % 2 else reversed(cells))
    ]
    return Plan(tuple(runs), tuple(cells), tuple(skipped))


def _name(layout: str, axes: dict[str, Any]) -> str:
    return " ".join([layout, *(f"{axis}={value}" for axis, value in axes.items())])


def _layouts(words: list[str] | None) -> list[str] | None:
    """Read `--layout 1x4,2+3`."""
    try:
        parts = [part for word in words or [] for part in word.split(",")]
        return list(dict.fromkeys(str(Layout.parse(part)) for part in parts)) or None
    except ValueError as error:
        msg = f"--layout: {error}"
        raise RequestError(msg) from None


def _only(experiment: Experiment, words: list[str]) -> dict[str, list[Any]]:
    """Read `axis=value` words; several values of one axis may be joined by commas or given one by one."""
    chosen: dict[str, list[Any]] = {}
    for word in words:
        axis, equals, text = word.partition("=")
        if not equals:
            msg = f"--only {word}: write axis=value, as --only layout=1x2"
            raise RequestError(msg)
        if axis not in experiment.matrix:
            msg = f"--only {word}: '{axis}' is no axis of {experiment.name}{did_you_mean(axis, experiment.matrix)}"
            raise RequestError(msg)
        values = experiment.matrix[axis]
        for part in text.split(","):
            value = _canonical(axis, part)
            if value not in map(str, values):
                hint = "; --layout runs others" if axis == "layout" else ""
                known = ", ".join(map(str, values))
                msg = f"--only {word}: {experiment.name} has no {axis} '{part}'; it has {known}{hint}"
                raise RequestError(msg)
            chosen.setdefault(axis, []).extend(point for point in values if str(point) == value)
    return chosen


def _canonical(axis: str, text: str) -> str:
    if axis != "layout":
        return str(yamlfile.scalar(text))
    try:
        return str(Layout.parse(text))
    except ValueError as error:
        msg = f"--only layout={text}: {error}"
        raise RequestError(msg) from None


def _changes(experiment: Experiment, words: list[str], programs: dict[str, Program]) -> dict[str, Any]:
    changed: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        key = key.replace("-", "_")
        if not equals or not key:
            msg = f"--set {word}: write arg=value, as --set epochs=1"
            raise RequestError(msg)
        if key in experiment.matrix:
            msg = f"--set {word}: '{key}' is an axis of {experiment.name}; choose its values with --only {key}=..."
            raise RequestError(msg)
        if key in RESERVED:
            msg = f"--set {word}: {RESERVED[key]}"
            raise RequestError(msg)
        value = _value(word, text)
        for program in programs.values():
            if not program.options and key not in experiment.args:
                msg = f"--set {word}: {experiment.path} has no arg '{key}'{did_you_mean(key, experiment.args)}"
                raise RequestError(msg)
            try:
                program.check(key, value)
            except RequestError as error:
                msg = f"--set {word}: {error}"
                raise RequestError(msg) from None
        changed[key] = value
    return changed


def _value(word: str, text: str) -> str | float | None:
    if not text.isprintable():
        msg = f"--set {one_line(word)}: the value has letters that cannot be printed"
        raise RequestError(msg)
    value = yamlfile.scalar(text)
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        msg = f"--set {word}: a whole number has 63 bits at most"
        raise RequestError(msg)
    return value if value is None or isinstance(value, str | int | float) else text


def _cell(
    experiment: Experiment,
    point: dict[str, Any],
    changed: dict[str, Any],
    device: str,
    programs: dict[str, Program],
) -> Cell:
    """Resolve a point of the matrix; what the definition declares is told to a program that wants to know it."""
    program = programs[point.get("program", experiment.program)]
    axes = {axis: value for axis, value in point.items() if axis != "layout"}
    own = experiment.program_args.get(program.name, {})
    args = {**experiment.args, **own, **{axis: value for axis, value in axes.items() if axis != "program"}, **changed}
    declared = {"scaling": experiment.scaling, "device": device}
    args |= {key: value for key, value in declared.items() if key in program.options}
    return Cell(Layout.parse(point["layout"]), program, axes, args)
