"""Two versions -> their runs, made in turn: A B, B A, A B, ... for every cell, so that a slow drift favours neither."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from runner.core.errors import RequestError
from runner.definitions.plan import Plan
from runner.execution.observer import Observer
from runner.execution.run import carry_out, prepare
from runner.execution.signals import Interrupts
from runner.records.folder import new_id
from runner.records.schema import Record, Side
from runner.report.run_summary import RunSummary, summary_of
from runner.targets.base import Target

NAMES = ("A", "B")


@dataclass(frozen=True)
class Version:
    """One side, ready to be run: what it is, for a person; its runs; the target, and its options as words."""

    label: str
    plan: Plan
    target: Target[Any]
    words: list[str]


def run_in_turn(
    versions: tuple[Version, Version], results: Path, observer: Observer, interrupts: Interrupts
) -> tuple[list[RunSummary], list[RunSummary]]:
    """Carry out the runs of two versions in turn, and return those of A and those of B.

    A cell that one version lacks is left out; RequestError if they have none in common. What it raises besides, and
    what becomes of a cell that fails, is as in `execution.run.execute`: neither side runs it again.
    """
    comparison = new_id("comparison")
    sides = []
    for version, name in zip(versions, NAMES, strict=True):
        side = Side(comparison, name, version.label)
        runs = tuple(replace(run, side=side) for run in version.plan.runs)
        sides.append(replace(version, plan=replace(version.plan, runs=runs)))
    a, b = (
        prepare(version.plan, version.target, version.words, results, observer, interrupts)
        for version in _common(sides, observer)
    )
    # The runs of a pair one right behind the other: A first in odd repeats, B first in even ones.
    pairs = [(one, other) if one.run.repeat % 2 else (other, one) for one, other in zip(a, b, strict=True)]
    records = carry_out([job for pair in pairs for job in pair], results, observer, interrupts)
    return _of_side("A", records), _of_side("B", records)


def _common(versions: list[Version], observer: Observer) -> list[Version]:
    """Leave out the cells that one of the two lacks."""
    cells = [{str(cell) for cell in version.plan.cells} for version in versions]
    common = cells[0] & cells[1]
    for version, name in zip(versions, NAMES, strict=True):
        for cell in version.plan.cells:
            if str(cell) not in common:
                observer.note(f"left out: {cell}: only {name} has it")
    if not common:
        raise RequestError(
            f"A and B have no cell in common: {', '.join(sorted(cells[0]))} and {', '.join(sorted(cells[1]))}"
        )
    order = [str(cell) for cell in versions[0].plan.cells]
    return [replace(version, plan=_ordered(version.plan, common, order)) for version in versions]


def _ordered(plan: Plan, common: set[str], order: list[str]) -> Plan:
    """Sort the runs of a plan by repeat, and those of a repeat by their cells, forwards and backwards in turn."""
    chosen = [run for run in plan.runs if str(run.cell) in common]
    chosen.sort(key=lambda run: (run.repeat, order.index(str(run.cell)) * (1 if run.repeat % 2 else -1)))
    return replace(plan, runs=tuple(chosen))


def _of_side(name: str, records: list[Record]) -> list[RunSummary]:
    return [
        msgspec.structs.replace(summary_of(record), path=f"{record.launch.experiment}/{record.launch.id}")
        for record in records
        if record.launch.side and record.launch.side.name == name
    ]
