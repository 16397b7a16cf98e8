"""`runner run`."""

import shlex
from pathlib import Path
from typing import Annotated, Optional

import typer

from runner.cli import options
from runner.cli.lines import show_document
from runner.core.capabilities import capability
from runner.core.errors import RequestError, RunError
from runner.definitions.plan import Plan, make_plan
from runner.records.schema import Record

_WHAT = "A name that `runner list` shows, a .yaml file, or a training script: train.py, whose args come after `--`."


def run(
    experiment: Annotated[
        str, typer.Argument(metavar="EXPERIMENT", help=_WHAT, autocompletion=options.complete_experiment)
    ],
    arguments: Annotated[
        Optional[list[str]],
        typer.Argument(metavar="-- ARGS", help="The arguments of a script, as on its own command line."),
    ] = None,
    on: options.On = "local",
    only: options.Only = None,
    layout: options.Layouts = None,
    change: options.Change = None,
    repeat: options.Repeat = None,
    device: options.Device = "auto",
    results: options.Results = Path("results"),
    with_: options.With = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the launch specs; start nothing.")] = False,
) -> None:
    """Run an experiment, or a script, and keep a record of it.

    Every cell, every repeat, interleaved; each run has a folder of its own below the results folder.
    """
    from runner import targets

    words = options.options_of(on, with_)
    target = targets.load(on, words)
    without_definition = options.is_script(experiment)
    if without_definition:
        made = _plan_of_script(experiment, arguments or [], layout, only, change, repeat, device, start=not dry_run)
    elif arguments:
        raise RequestError(f"{arguments[0]}: {experiment} is no script; give arguments as --set name=value")
    else:
        made = options.plan_of(experiment, layout, only, change, repeat, device)
    if dry_run:
        for planned in made.runs:
            show_document(target.spec(planned).text())
        return
    if without_definition:
        from runner.records.folder import keep_out_of_git

        keep_out_of_git(results)
    from runner.cli.terminal import Screen
    from runner.execution import signals
    from runner.execution.run import execute

    with signals.taken() as interrupts, Screen() as screen:
        if (root := made.runs[0].experiment.root) != options.here():
            screen.note(f"project {root}")
        for name, skip in made.skipped:
            screen.note(f"left out: {name}: {skip.why}")
        records = execute(made, target, words, results, screen, interrupts)
        done = sum(record.status == "completed" for record in records)
        said = f"{done} of {len(made.runs)} runs completed{_where_the_time_went(records)}"
        screen.note(f"{said}; next: runner summarize {shlex.quote(str(results))}")
    if done < len(records):
        raise typer.Exit(RunError.exit_code)


def _plan_of_script(
    script: str,
    line: list[str],
    layouts: list[str] | None,
    only: list[str] | None,
    changes: list[str] | None,
    repeat: int | None,
    device: str,
    *,
    start: bool,
) -> Plan:
    """Plan the runs of a script that has no definition."""
    scripts = capability("script")
    if scripts is None:
        raise RequestError(f"{script}: this kit lacks runner/tools/init, which runs scripts without a definition")
    chosen = options.device_of(device)
    experiment = scripts.experiment_of(options.here(), script, line, changes or [], layouts or [], chosen, start=start)
    return make_plan(experiment, device=chosen, layouts=layouts, only=only, repeat=repeat)


def _where_the_time_went(records: list[Record]) -> str:
    """Return how long the completed runs trained, and took for all else; nothing if a program does not say it."""
    training, whole = 0.0, 0.0
    for record in records:
        if record.status != "completed" or record.outcome is None:
            continue
        trained = record.metrics.get("train_seconds")
        if trained is None or trained > record.outcome.wall_seconds:
            return ""
        training, whole = training + trained, whole + record.outcome.wall_seconds
    return f" (training {training:.0f} s, all else {whole - training:.0f} s)" if whole else ""
