"""The table of commands. Modules are imported when a command is called. No other file of the pipeline names a tool."""

from importlib import import_module
from typing import Any

MAIN = {
    "init": ("tools.init.init_command", "Turn your repository into a project with a first definition."),
    "plan": ("cli.plan_command", "List the experiments, or what one would run; start nothing."),
    "run": ("cli.run_command", "Run an experiment or a script, and keep records."),
    "summarize": ("cli.summarize_command", "Make the table of the records."),
    "explain": ("cli.explain_command", "Show where a run's time went, what slows it and what helps."),
    "report": ("tools.pages.report_command", "Make one HTML file of the records, with plots."),
    "collect": ("cli.collect_command", "Make the record of a run, of a job, or of any stdout."),
    "check": ("tools.check.check_command", "Check that N processes train the same as one."),
    "doctor": ("tools.doctor.doctor_command", "Diagnose this machine, cluster or host before a run."),
}
FURTHER = {
    "compare": ("cli.compare_command", "Test whether B is faster or slower than A."),
    "verify": ("tools.proof.verify_command", "Verify a record or an archive."),
    "bundle": ("tools.proof.bundle_command", "Make one archive of the records that others can check."),
    "reproduce": ("tools.proof.reproduce_command", "Run a record again and compare the results."),
    "prepare": ("cli.prepare_command", "Fetch and check the data of experiments, once."),
    "recover": ("cli.recover_command", "Finish the runs whose runner was killed."),
    "targets": ("cli.targets_command", "List the targets, or the options of one."),
    "node": ("cli.node_command", "Start one node of a run by hand."),
    "render": ("cli.render_command", "Render compose/, k8s/ and slurm/."),
}
"""For each command, a summary, and the module below `runner` with a function of the command's name."""
SCRIPT = "tools.init.unsaved"
"""The module that runs a script without a definition."""


def module(name: str) -> Any:
    """Import a module, given its name below `runner`."""
    return import_module(f"runner.{name}")


def load(name: str) -> tuple[Any, dict[str, Any] | None]:
    """Import a command, and return its function and its settings for click."""
    command = module((MAIN | FURTHER)[name][0])
    return getattr(command, name), getattr(command, "SETTINGS", None)
