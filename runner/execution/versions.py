"""Run two versions in turn, A B, B A, A B, ..., so that a drift of the machine's speed favours neither."""

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
"""Name of the image option of container targets."""
_SUFFIXES = (".yaml", ".yml")


class Kind(Enum):
    """Kind of a version to compare."""

    RESULTS = "a folder of results"
    CHECKOUT = "a project's folder"
    DEFINITION = "a definition"
    COMMIT = "a commit"
    IMAGE = "an image"


@dataclass(frozen=True)
class Choices:
    """Choices for both versions: the target, its options as `name=value` words, and the runs."""

    target: str
    words: list[str]
    selection: Selection


@dataclass(frozen=True)
class Version:
    """One version, ready to run, with a label for messages."""

    label: str
    plan: Plan
    target: Target[Any]


def run_in_turn(
    versions: tuple[Version, Version], results: Path, observer: Observer, interrupts: Interrupts
) -> tuple[list[RunSummary], list[RunSummary]]:
    """Carry out the runs of two versions in turn, and return the summaries of A and of B.

    Cells that only one version has are left out. After a failed run, neither version runs the cell again. Raises
    RequestError if the versions have no cell in common, and the errors of `execution.run.execute`.
    """
    comparison = new_id("comparison")
    first, second = (list(map(str, version.plan.cells)) for version in versions)
    common = [cell for cell in first if cell in second]
    if not common:
        raise RequestError(f"A and B have no cell in common: {listed(first)} and {listed(second)}")
    if rest := [cell for cell in [*first, *second] if cell not in common]:
        observer.note(f"left out because only one version has it: {listed(rest)}")
    jobs = []
    for name, version in zip("AB", versions, strict=True):
        side = Side(comparison, name, version.label)
        runs = [replace(run, side=side) for run in version.plan.runs if str(run.cell) in common]
        # Reverse the cells in even repeats, so that drift favours none.
        runs.sort(key=lambda run: (run.repeat, common.index(str(run.cell)) * (1 if run.repeat % 2 else -1)))
        plan = replace(version.plan, runs=tuple(runs))
        jobs.append(prepare(plan, version.target, results, observer, interrupts))
    pairs = [(a, b) if a.run.repeat % 2 else (b, a) for a, b in zip(*jobs, strict=True)]
    sides: dict[str, list[RunSummary]] = {"A": [], "B": []}
    for record in carry_out([job for pair in pairs for job in pair], results, observer, interrupts):
        path = f"{record.launch.experiment}/{record.launch.id}"
        if record.launch.side:
            sides[record.launch.side.name].append(msgspec.structs.replace(summary_of(record), path=path))
    return sides["A"], sides["B"]


def kind_of(word: str, root: Path, target: str) -> Kind:
    """Return the kind of version that a command-line word names. Raises RequestError if the word names none.

    A file or folder takes precedence over a branch of the same name. `refs/heads/<name>` selects the branch.
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
    nothing = f"not a folder, a definition file or a commit of {root}"
    raise RequestError(f"{one_line(word)}: {nothing}; an image needs --on compose or kubernetes")


def version_of(word: str, kind: Kind, choices: Choices, root: Path, check_out: Callable[[str], Path]) -> Version:
    """Prepare one version. Raises RequestError if the version cannot run."""
    words, label, project = list(choices.words), one_line(word), root
    if kind is Kind.COMMIT:
        if choices.target != "local":
            raise RequestError(f"{label}: commits run only on this machine (--on local): compare images elsewhere")
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
    if kind is Kind.DEFINITION:
        return Path(word)
    name = choices.selection.experiment
    if not name:
        names = listed(path.stem for path in definition.files(project))
        raise RequestError(f"{one_line(word)}: choose an experiment with --experiment: one of {names}")
    if name.endswith(_SUFFIXES):
        return project / name
    return definition.find(name, project)
