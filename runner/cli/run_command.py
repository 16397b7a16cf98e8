"""`runner run`."""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Optional, cast

import typer
from msgspec import structs

from runner.cli import options
from runner.cli.command_table import SCRIPT, module
from runner.cli.printing import say, show_document
from runner.core.errors import RequestError, RunError
from runner.definitions.definition import Experiment
from runner.definitions.plan import Plan, make_plan

_WHAT = "A name that `runner plan` lists, a .yaml file, or a training script, whose arguments come after `--`."


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
    env: options.Env = None,
    repeat: options.Repeat = None,
    device: options.Device = "auto",
    scaling: Annotated[
        Optional[str],
        typer.Option(metavar="strong|weak", help="The same work in total (strong) or for each process (weak)."),
    ] = None,
    results: options.Results = Path("results"),
    metric: options.Metric = None,
    with_: options.With = None,
    missing: Annotated[
        bool,
        typer.Option(
            "--missing", help="Only the repeats that a cell lacks; code, image, data and machine must be the same."
        ),
    ] = False,
    no_observe: options.NoObserve = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the launch specs; start nothing.")] = False,
) -> None:
    """Run an experiment or a script, and keep records.

    The repeats of all cells are interleaved. Each run has its own folder below the results folder.
    """
    chosen = options.select(**locals())
    from runner import targets

    words = options.options_of(on, with_)
    target = targets.load(on, words)
    without_definition = options.is_script(experiment)
    if without_definition:
        defined = cast("Experiment", module(SCRIPT).experiment_of(options.here(), chosen, start=not dry_run))
        chosen = replace(chosen, changes=())  # the script's definition has them
    elif arguments:
        raise RequestError(f"{arguments[0]}: {experiment} is not a script; give arguments as --set name=value")
    else:
        defined = options.experiment_of(experiment)
    metrics = {**defined.metrics, **chosen.metrics}
    defined = structs.replace(defined, scaling=chosen.scaling or defined.scaling, metrics=metrics)
    made = make_plan(defined, chosen)
    earlier = None
    if missing:
        from runner.execution.missing import missing as only_missing

        made, earlier = only_missing(made, on, results)
        if not made.runs:
            say("no repeat is missing")
            return
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
        for note in _notes(made, is_observed=target.observes and not no_observe):
            screen.note(note)
        records = execute(made, target, results, screen, interrupts, earlier)
        done = sum(record.status == "completed" for record in records)
        then = f"next: runner summarize {shlex.quote(str(results))}"
        screen.note(f"{done} of {len(made.runs)} runs completed; {then}")
    if done < len(records):
        raise typer.Exit(RunError.exit_code)


def _notes(plan: Plan, *, is_observed: bool) -> Iterator[str]:
    from runner.report.notes import SAY_SCALING

    experiment = plan.runs[0].experiment
    if experiment.root != options.here():
        yield f"project {experiment.root}"
    # A program that prints events counts its samples.
    is_counted = is_observed or not experiment.dialects
    if not is_counted and not experiment.scaling and len({cell.layout for cell in plan.cells}) > 1:
        yield SAY_SCALING
    yield from (f"left out: {name}: {why}" for name, why in plan.skipped)
