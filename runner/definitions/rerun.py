"""Rebuild a run from its record and the project's current definition.

The record may be untrusted. It therefore only chooses an experiment and a program of this project, and values of args.
If the definition has changed since the run was started, the run is refused, and the error names the changed keys.
"""

import re
from pathlib import Path

from runner.core.errors import RequestError
from runner.core.layout import Layout
from runner.core.secrets import refuse_args
from runner.core.text import one_line
from runner.definitions import experiment as definitions
from runner.definitions.definition import DEVICES, hash_resolved
from runner.definitions.environment import variables_of, wrong_variable
from runner.definitions.plan import Cell, Run
from runner.records.schema import Launch

_NAME = re.compile(r"\w[\w-]*")
"""The form of an experiment's name, for example `mnist-ddp`. It excludes paths, which could load any file."""


def run_of(launch: Launch, root: Path) -> Run:
    """Return the run that a launch describes. Raises RequestError if the definition has changed since the launch."""
    if not _NAME.fullmatch(launch.experiment):
        raise RequestError(f"the record's experiment {one_line(launch.experiment, 80)!r} is not a valid name")
    refuse_args(launch.args)
    for name, value in variables_of(launch.args).items():
        if wrong := wrong_variable(name, value):
            raise RequestError(one_line(f"the record's {wrong}"))
    experiment = definitions.load(definitions.find(launch.experiment, root), root)
    if hash_resolved(experiment.resolved()) != launch.definition_sha256:
        now, then = experiment.resolved(), launch.definition
        names = [name for name in {**now, **then} if now.get(name) != then.get(name)]
        changed = one_line(", ".join(names) or "the form of a value", 200)
        raise RequestError(f"{one_line(experiment.path)}: has changed since the run was started: {changed}")
    programs = experiment.programs
    if launch.program not in programs:
        raise RequestError(f"{one_line(experiment.path)}: has no program '{one_line(launch.program, 80)}'")
    if launch.device not in DEVICES:
        raise RequestError(f"the record's device {one_line(launch.device, 40)!r} is unknown")
    program = programs[launch.program]
    try:
        layout = Layout.parse(launch.layout)
    except ValueError as error:
        raise RequestError(one_line(error)) from None
    cell = Cell(layout, program, launch.axes, launch.args)
    return Run(experiment, cell, launch.repeat, launch.repeats, launch.device)
