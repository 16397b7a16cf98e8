"""Two versions, as words of the command line name them -> their runs, made in turn.

A B, B A, A B, ... for every cell, so that a slow drift favours neither.
"""

from dataclasses import dataclass, fields, replace
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from runner import targets
from runner.core.errors import RequestError
from runner.core.git import commit_of, short_name
from runner.core.text import one_line
from runner.definitions import experiment as definition
from runner.definitions.choices import Selection
from runner.definitions.plan import Plan, make_plan
from runner.definitions.settings import settings_of
from runner.execution.observer import Observer
from runner.execution.run import carry_out, prepare
from runner.execution.signals import Interrupts
from runner.execution.worktrees import Worktrees
from runner.records.folder import new_id
from runner.records.schema import Record, Side
from runner.report.run_summary import RunSummary, summary_of
from runner.targets.base import Target

NAMES = ("A", "B")
IMAGE = "image"
"""The option of the targets that can be given an image."""
_SUFFIXES = (".yaml", ".yml")


class Kind(Enum):
    """What a side is."""

    RESULTS = "a folder of results"
    CHECKOUT = "a project's folder"
    DEFINITION = "a definition"
    COMMIT = "a commit"
    IMAGE = "an image"


@dataclass(frozen=True)
class Choices:
    """What the command line chooses for both sides: the target, its options as words, and the runs."""

    target: str
    words: list[str]
    selection: Selection


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
    pairs = [(first, second) if first.run.repeat % 2 else (second, first) for first, second in zip(a, b, strict=True)]
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
    kept = []
    for version in versions:
        runs = [run for run in version.plan.runs if str(run.cell) in common]
        # By repeat, and within a repeat by cell, forwards and backwards in turn.
        runs.sort(key=lambda run: (run.repeat, order.index(str(run.cell)) * (1 if run.repeat % 2 else -1)))
        kept.append(replace(version, plan=replace(version.plan, runs=tuple(runs))))
    return kept


def _of_side(name: str, records: list[Record]) -> list[RunSummary]:
    return [
        msgspec.structs.replace(summary_of(record), path=f"{record.launch.experiment}/{record.launch.id}")
        for record in records
        if record.launch.side and record.launch.side.name == name
    ]


def kind_of(word: str, root: Path, target: str) -> Kind:
    """Return what a word names; RequestError for one that names nothing.

    A folder or file comes first; `refs/heads/<name>` names a branch of the same name as one.
    """
    path = Path(word)
    try:
        if path.is_dir():
            return Kind.CHECKOUT if settings_of(path).folder.is_dir() else Kind.RESULTS
        if path.suffix in _SUFFIXES or path.is_file():
            return Kind.DEFINITION
    except (OSError, ValueError):  # a name that no file can have
        pass
    if commit_of(root, word):
        return Kind.COMMIT
    if IMAGE in _options(target):
        return Kind.IMAGE
    having = [name for name in targets.TARGETS if IMAGE in _options(name)]
    nothing = f"neither a folder, a definition's file, nor a commit of {root}"
    raise RequestError(f"{one_line(word)}: {nothing}; an image is for --on {' or '.join(having)}")


def version_of(word: str, kind: Kind, choices: Choices, root: Path, worktrees: Worktrees) -> Version:
    """Make a side ready: its project, its runs and its target; RequestError if it cannot be run."""
    words, label, project = list(choices.words), one_line(word), root
    if kind is Kind.COMMIT:
        if choices.target != "local":
            raise RequestError(f"{label}: a commit is run on this machine, --on local; elsewhere compare images")
        commit = commit_of(root, word) or word
        label = f"{label} ({short_name(root, commit)})"
        project = worktrees.add(commit)
    elif kind is Kind.CHECKOUT:
        project = Path(word).resolve()
    elif kind is Kind.IMAGE:
        words.append(f"{IMAGE}={word}")
    experiment = definition.load(_definition(word, kind, choices, project), project)
    plan = make_plan(experiment, choices.selection)
    return Version(label, plan, targets.load(choices.target, words), words)


def _definition(word: str, kind: Kind, choices: Choices, project: Path) -> Path:
    """Find the definition of a side: its own file, or the experiment that was named, as this side has it."""
    if kind is Kind.DEFINITION:
        return Path(word)
    name = choices.selection.experiment
    if not name:
        names = ", ".join(path.stem for path in definition.files(project))
        raise RequestError(f"{one_line(word)}: say what is run: --experiment, one of {names}")
    if name.endswith(_SUFFIXES):
        return project / name
    return definition.find(name, project)


def _options(target: str) -> list[str]:
    return [option.name for option in fields(targets.find(target).Options)]
