"""Two versions, as words of the command line name them -> their runs, made in turn.

A B, B A, A B, ... for every cell, and the cells forwards and backwards in turn, so that drift of the machine favours
neither a side nor a cell.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec

from runner import targets
from runner.core.errors import RequestError
from runner.core.git import commit_of, short_name
from runner.core.text import listed, one_line
from runner.definitions import experiment as definition
from runner.definitions.choices import Selection
from runner.definitions.plan import Plan, make_plan
from runner.definitions.settings import settings_of
from runner.execution.observer import Observer
from runner.execution.run import carry_out, prepare
from runner.execution.signals import Interrupts
from runner.records.folder import new_id
from runner.records.schema import Side
from runner.report.run_summary import RunSummary, summary_of
from runner.targets.base import Target

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
    """One side, ready to be run: what it is, for a person; its runs, and the target."""

    label: str
    plan: Plan
    target: Target[Any]


def run_in_turn(
    versions: tuple[Version, Version], results: Path, observer: Observer, interrupts: Interrupts
) -> tuple[list[RunSummary], list[RunSummary]]:
    """Carry out the runs of two versions in turn, and return those of A and those of B.

    A cell that one version lacks is left out; RequestError if they have none in common. What it raises besides, and
    what becomes of a cell that fails, is as in `execution.run.execute`: neither side runs it again.
    """
    comparison = new_id("comparison")
    first, second = (list(map(str, version.plan.cells)) for version in versions)
    common = [cell for cell in first if cell in second]
    if not common:
        raise RequestError(f"A and B have no cell in common: {listed(first)} and {listed(second)}")
    if rest := [cell for cell in [*first, *second] if cell not in common]:
        observer.note(f"left out, because only one version has it: {listed(rest)}")
    jobs = []
    for name, version in zip("AB", versions, strict=True):
        side = Side(comparison, name, version.label)
        runs = [replace(run, side=side) for run in version.plan.runs if str(run.cell) in common]
        # By repeat, and within a repeat by cell, forwards and backwards in turn.
        runs.sort(key=lambda run: (run.repeat, common.index(str(run.cell)) * (1 if run.repeat % 2 else -1)))
        plan = replace(version.plan, runs=tuple(runs))
        jobs.append(prepare(plan, version.target, results, observer, interrupts))
    # The runs of a pair one right behind the other: A first in odd repeats, B first in even ones.
    pairs = [(a, b) if a.run.repeat % 2 else (b, a) for a, b in zip(*jobs, strict=True)]
    sides: dict[str, list[RunSummary]] = {"A": [], "B": []}
    for record in carry_out([job for pair in pairs for job in pair], results, observer, interrupts):
        path = f"{record.launch.experiment}/{record.launch.id}"
        if record.launch.side:
            sides[record.launch.side.name].append(msgspec.structs.replace(summary_of(record), path=path))
    return sides["A"], sides["B"]


def kind_of(word: str, root: Path, target: str) -> Kind:
    """Return what a word names; RequestError for one that names nothing.

    A folder or file comes first; `refs/heads/<name>` names a branch of the same name as one.
    """
    path = Path(word)
    if path.is_dir():
        return Kind.CHECKOUT if settings_of(path).folder.is_dir() else Kind.RESULTS
    if path.suffix in _SUFFIXES or path.is_file():
        return Kind.DEFINITION
    if commit_of(root, word):
        return Kind.COMMIT
    if IMAGE in (option.name for option in fields(targets.find(target).Options)):
        return Kind.IMAGE
    nothing = f"neither a folder, a definition's file, nor a commit of {root}"
    raise RequestError(f"{one_line(word)}: {nothing}; an image is for --on compose or kubernetes")


def version_of(word: str, kind: Kind, choices: Choices, root: Path, check_out: Callable[[str], Path]) -> Version:
    """Make a side ready: its project, its runs and its target; RequestError if it cannot be run."""
    words, label, project = list(choices.words), one_line(word), root
    if kind is Kind.COMMIT:
        if choices.target != "local":
            raise RequestError(f"{label}: a commit is run on this machine, --on local; elsewhere compare images")
        commit = commit_of(root, word) or word
        label = f"{label} ({short_name(root, commit)})"
        project = check_out(commit)
    elif kind is Kind.CHECKOUT:
        project = Path(word).resolve()
    elif kind is Kind.IMAGE:
        words.append(f"{IMAGE}={word}")
    experiment = definition.load(_definition(word, kind, choices, project), project)
    plan = make_plan(experiment, choices.selection)
    return Version(label, plan, targets.load(choices.target, words))


def _definition(word: str, kind: Kind, choices: Choices, project: Path) -> Path:
    """Find the definition of a side: its own file, or the experiment that was named, as this side has it."""
    if kind is Kind.DEFINITION:
        return Path(word)
    name = choices.selection.experiment
    if not name:
        names = listed(path.stem for path in definition.files(project))
        raise RequestError(f"{one_line(word)}: say what is run: --experiment, one of {names}")
    if name.endswith(_SUFFIXES):
        return project / name
    return definition.find(name, project)
