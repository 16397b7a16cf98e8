"""The files of a project's containers, beside those of its first definition or for one that is there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from runner.core.errors import RequestError
from runner.core.text import listed
from runner.definitions import experiment as definition
from runner.definitions.definition import Experiment
from runner.definitions.project import files, find
from runner.tools.init.changes import Change
from runner.tools.init.containers import containers
from runner.tools.init.git import repository
from runner.tools.init.proposal import Proposal, project
from runner.tools.init.reading import Reading
from runner.tools.init.settings_text import added_settings


@dataclass(frozen=True)
class Additions:
    """What is written, and what a person should know of it."""

    changes: list[Change]
    folders: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def defined(here: Path, name: str | None) -> Experiment | None:
    """Return the experiment that containers are wanted for, if the project has it already.

    RequestError if it has several and none is named.
    """
    settings = project(here, repository(here))
    known = {path.stem: path for path in files(settings.root)} if settings.source else {}
    if not known or (name is not None and name not in known):
        return None
    if name is None and len(known) > 1:
        msg = f"the project has {len(known)} experiments: name one: runner init --containers --name {min(known)}"
        msg += f"; there are {listed(sorted(known))}"
        raise RequestError(msg)
    return definition.load(find(name or min(known), settings.root), settings.root)


def of_project(experiment: Experiment) -> Additions:
    """Add containers to a project."""
    settings = experiment.settings
    made = containers(settings, experiment, repository(settings.root).committed())
    changes = [Change(settings.root / path, None, text) for path, text in made.files.items()]
    if made.settings:
        changes.append(Change(*added_settings(settings, made.settings)))
    return Additions(changes, [settings.root / folder for folder in made.folders], made.notes)


def of_proposal(proposal: Proposal, reading: Reading, folder: Path) -> Additions:
    """Add containers to a project that does not exist yet, or to its new definition.

    Args:
        proposal: the project.
        reading: how the output of its script is read.
        folder: for temporary files.
    """
    experiment = proposal.experiment(reading, folder)
    if proposal.settings.source is not None:
        added = of_project(experiment)
        return replace(added, changes=[*proposal.changes(reading), *added.changes])
    made = containers(proposal.settings, experiment, repository(proposal.root).committed())
    settings = replace(proposal.settings, **made.settings)  # type: ignore[arg-type]
    changes = replace(proposal, settings=settings).changes(reading)
    changes += [Change(proposal.root / path, None, text) for path, text in made.files.items()]
    return Additions(changes, [proposal.root / folder for folder in made.folders], made.notes)
