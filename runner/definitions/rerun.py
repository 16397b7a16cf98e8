"""Launch -> Run: the same run once more, from its record and the definition that the project has now.

The record may come from a stranger: it names an experiment of this project, one of its programs, and values for the
program's arguments; whatever is not the same now is refused by name.
"""

import re
from pathlib import Path
from typing import Any

from runner.core.errors import RequestError
from runner.core.layout import Layout
from runner.core.masking import Masker
from runner.core.secrets import secrets_in
from runner.core.text import listed, one_line
from runner.definitions import experiment as definitions
from runner.definitions.definition import Experiment, hash_resolved
from runner.definitions.plan import Cell, Run
from runner.definitions.skips import DEVICES
from runner.records.schema import Launch

_NAME = re.compile(r"\w[\w-]*")
"""The name of an experiment, for example `mnist-ddp`; a path would be loaded from anywhere."""


def run_of(launch: Launch, root: Path) -> Run:
    """Make the run that a launch describes, of the project's own definition; RequestError names what has changed."""
    if not _NAME.fullmatch(launch.experiment):
        raise RequestError(f"the record's experiment {one_line(launch.experiment, 80)!r} is no name")
    require_values(launch)
    experiment = definitions.load(definitions.find(launch.experiment, root), root)
    if _hash_as_kept(experiment, launch) != launch.definition_sha256:
        now, then = experiment.resolved(), launch.definition
        names = [name for name in {**now, **then} if now.get(name) != then.get(name)]
        changed = one_line(", ".join(names) or "what it means", 200)
        raise RequestError(f"{one_line(experiment.path)}: has changed since the run was started: {changed}")
    programs = experiment.programs()
    if launch.program not in programs:
        raise RequestError(f"{one_line(experiment.path)}: has no program '{one_line(launch.program, 80)}'")
    if launch.device not in DEVICES:
        raise RequestError(f"the record's device {one_line(launch.device, 40)!r} is none")
    program = programs[launch.program]
    for key, value in launch.args.items():
        program.check(key, value)
    try:
        layout = Layout.parse(launch.layout)
    except ValueError as error:
        raise RequestError(one_line(error)) from None
    cell = Cell(layout, program, launch.axes, launch.args)
    return Run(experiment, cell, launch.repeat, launch.repeats, launch.device)


def require_values(launch: Launch) -> None:
    """Raise RequestError if args of a run were masked in its record, and say how it is run with them."""
    masked = {"masked as a secret": launch.masked, "a folder, masked in the archive": launch.masked_places}
    for what, names in masked.items():
        if lost := [name for name in names if name.startswith("args.")]:
            named = " ".join(f"--set {name.removeprefix('args.')}=..." for name in lost)
            msg = f"the record holds no value of {listed(lost)}: {what}; runner run {launch.experiment} {named}"
            raise RequestError(one_line(msg, 300))


def _hash_as_kept(experiment: Experiment, launch: Launch) -> str:
    """Hash a definition as a record keeps it: with its secrets and folders masked, if there are any."""
    resolved: dict[str, Any] = _with_places(experiment.resolved(), launch.definition, launch)
    if not any(name.startswith("definition.") for name in launch.masked):
        return hash_resolved(resolved)
    secrets = secrets_in(resolved)
    return hash_resolved(Masker(value for values in secrets.values() for value in values).tree(resolved))


def _with_places(now: Any, kept: Any, launch: Launch, path: str = "definition") -> Any:
    """Put what a record keeps in place of each value in which a folder was masked."""
    if path in launch.masked_places:
        return kept
    if not isinstance(now, dict) or not isinstance(kept, dict):
        return now
    return {key: _with_places(item, kept.get(key), launch, f"{path}.{key}") for key, item in now.items()}
