"""The table of commands: names here, modules imported on use. Nothing else of the pipeline knows a tool."""

from importlib import import_module
from typing import Any

MAIN = {
    "init": ("tools.init.init_command", "Make your repository a project with a first definition."),
    "list": ("cli.list:list_", "Show the experiments."),
    "plan": ("cli.plan", "Show what would be run; start nothing."),
    "run": ("cli.run", "Run an experiment, or a script, and keep a record of it."),
    "summarize": ("cli.summarize", "Make the table of the records."),
    "explain": ("cli.explain", "Say where a run's time went, what slows it and what helps."),
    "report": ("tools.pages.report_command", "Make one HTML file of the records, with plots."),
    "collect": ("cli.collect", "Make the record of a run, of a job, or of any stdout."),
    "check": ("tools.check.check_command", "Say whether N processes train what one trains."),
    "doctor": ("tools.doctor.doctor_command", "Look whether runs will work here, and what would stop them."),
}
FURTHER = {
    "compare": ("cli.compare", "Say whether B is faster or slower than A."),
    "verify": ("tools.proof.verify_command", "Say how far a record can be believed."),
    "bundle": ("tools.proof.bundle_command", "Make one archive of the records that others can check."),
    "reproduce": ("tools.proof.reproduce_command", "Run a record again from what it says, and compare."),
    "prepare": ("cli.prepare", "Bring the data of experiments here, once."),
    "recover": ("cli.recover", "Finish the runs whose runner was killed."),
    "targets": ("cli.targets", "Show the targets, or the options of one of them."),
    "node": ("cli.node", "Start one node's part of a run by hand."),
    "schema": ("cli.schema", "Print the JSON Schema of a definition, for editors."),
    "render": ("cli.render", "Render compose/, k8s/ and slurm/."),
    "image": ("cli.image:app", "The images that containers run."),
}
"""Each command's module below `runner`, with the name in it where that is another, and its summary."""
SCRIPT = "tools.init.unsaved"
"""What runs a script that has no definition."""


def summaries(table: dict[str, tuple[str, str]]) -> dict[str, str]:
    """Return the summary of each command."""
    return {name: summary for name, (_, summary) in table.items()}


def module(name: str) -> Any:
    """Import a module by its name below `runner`."""
    return import_module(f"runner.{name}")


def load(name: str) -> tuple[Any, dict[str, Any] | None]:
    """Import a command: its function, or its group of commands, and the settings for its words."""
    entry, _ = (MAIN | FURTHER)[name]
    place, _, function = entry.partition(":")
    found = module(place)
    return getattr(found, function or name), getattr(found, "SETTINGS", None)
