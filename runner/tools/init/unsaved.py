"""Run a script that has no definition, with the definition that `runner init` would write."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from runner.cli.printing import say
from runner.core.errors import RequestError
from runner.core.layout import Layout
from runner.core.temporary import temporary_folder
from runner.definitions.choices import Selection
from runner.definitions.definition import Experiment
from runner.definitions.plan import Run, make_plan
from runner.records.observed import SAMPLE_SECONDS
from runner.tools.init.first_run import read_first_run, say_output, unread
from runner.tools.init.proposal import RUN, Proposal, choose, project, propose

FIRST_SECONDS = 60
"""Time limit of the first run."""


def experiment_of(here: Path, selection: Selection, *, start: bool) -> Experiment:
    """Return the experiment of a script and print its properties. Raises RequestError if the script cannot run.

    If `start`, the script is run once first, to learn how to read its output.
    """
    line, changes = list(selection.arguments), list(selection.changes)
    proposal = propose(here, selection.experiment, None, changes, line, unsaved=True)
    _refuse_several_processes(proposal, selection.layouts)
    named, root = proposal.modules.script, proposal.root
    say(f"script: {named}: {proposal.modules.why}")
    command = f"{RUN} {shlex.quote(os.path.relpath(root / named))}"
    first = (proposal, selection.device, FIRST_SECONDS, command, selection.variables)
    reading = read_first_run(*first) if start else unread(proposal)
    say_output(reading, tried=start, metrics=list(selection.metrics))
    with temporary_folder("init") as folder:
        experiment = proposal.experiment(reading, folder)
    script = os.path.relpath(root / named) if here.is_relative_to(root) else named
    words = [word for change in changes for word in ("--set", change)] + (["--", *line] if line else [])
    keep = shlex.join(["runner", "init", script, *words])
    keep = keep if here.is_relative_to(root) else f"cd {shlex.quote(str(root))} && {keep}"
    by = "samples per second" if reading.measure == SAMPLE_SECONDS else reading.measure
    by = "run time" if reading.unobserved else by
    say(f"definition: compares {by}; to keep it: {keep}")
    return structs.replace(experiment, path=root / named)


def command_of(here: Path) -> str:
    """Return a line for the user: the command that runs a folder's script, or the reason why no script was found."""
    try:
        settings, repository = project(here)
        modules = choose(settings.root, here, repository, RUN)
    except RequestError as error:
        return str(error)
    layouts = "--layout 1x1 --layout 1x2" if modules.layout[0] else "--layout 1x1"
    what = "runs your script and records it; runner init writes its definition"
    return f"{RUN} {shlex.quote(os.path.relpath(settings.root / modules.script))} {layouts}    {what}"


def run_of(folder: Path, selection: Selection) -> Run:
    """Return the run of a script with one process, without starting it."""
    changes, line = list(selection.changes), list(selection.arguments)
    proposal = propose(folder, selection.experiment, None, changes, line, unsaved=True)
    with temporary_folder("init") as draft:
        experiment = proposal.experiment(unread(proposal), draft)
        return make_plan(experiment, Selection(device=selection.device, layouts=("1x1",), repeat=1)).runs[0]


def _refuse_several_processes(proposal: Proposal, layouts: Sequence[str]) -> None:
    for word in (part for layout in layouts for part in layout.split(",")):
        try:
            several = Layout.parse(word).world_size > 1
        except ValueError as error:
            raise RequestError(f"--layout: {error}") from None
        is_parallel, why = proposal.modules.layout
        if several and not is_parallel:
            raise RequestError(f"{proposal.modules.script}: --layout {word}: {why}")
