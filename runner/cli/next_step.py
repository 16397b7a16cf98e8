"""Suggest the next command. If `runner` is called without a command, it prints the suggestion below the help."""

import shlex
from pathlib import Path

from runner.cli.command_table import SCRIPT, module
from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.definitions import experiment as definition
from runner.definitions.settings import nearest


def next_step(here: Path) -> str:
    """Return the command that is most useful next in a folder, and what the command does."""
    try:
        project = nearest(here)
        experiments = definition.files(project.root) if project else []
    except RequestError as error:
        return f"fix the settings: {error}"
    results = (project.root if project else here) / "results"
    if next(results.glob("*/*/run.json"), None):
        place = "results/" if results.parent == here else one_line(shlex.quote(str(results)))
        return f"runner summarize {place}    makes the table of the records"
    if not experiments:
        return str(module(SCRIPT).command_of(here))
    if len(experiments) > 1:
        return f"runner plan    lists the {len(experiments)} experiments; `runner run NAME` runs one"
    return f"runner run {experiments[0].stem}    runs the experiment and keeps a record of it"
