"""What a word on the command line names as a side of a comparison, and how it is made ready to be run."""

import dataclasses
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from runner import targets
from runner.core.errors import RequestError
from runner.core.git import commit_of, short_name
from runner.core.text import one_line
from runner.definitions import experiment as definition
from runner.definitions.plan import make_plan
from runner.definitions.settings import settings_of
from runner.execution.compare import Version
from runner.execution.worktrees import Worktrees

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
    """What the command line chooses for both sides, in the words of `runner run`."""

    experiment: str | None
    target: str
    words: list[str]
    device: str
    layouts: list[str] | None
    only: list[str] | None
    changes: list[str] | None
    repeat: int


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
    plan = make_plan(
        experiment,
        device=choices.device,
        layouts=choices.layouts,
        only=choices.only,
        changes=choices.changes,
        repeat=choices.repeat,
    )
    return Version(label, plan, targets.load(choices.target, words), words)


def _definition(word: str, kind: Kind, choices: Choices, project: Path) -> Path:
    """Find the definition of a side: its own file, or the experiment that was named, as this side has it."""
    if kind is Kind.DEFINITION:
        return Path(word)
    if choices.experiment is None:
        names = ", ".join(path.stem for path in definition.files(project))
        raise RequestError(f"{one_line(word)}: say what is run: --experiment, one of {names}")
    if choices.experiment.endswith(_SUFFIXES):
        return project / choices.experiment
    return definition.find(choices.experiment, project)


def _options(target: str) -> list[str]:
    return [option.name for option in dataclasses.fields(targets.find(target).Options)]
