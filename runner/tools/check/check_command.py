"""The command `runner check`."""

from dataclasses import replace
from pathlib import Path
from shlex import split
from typing import Annotated, Optional

import typer

from runner.cli.command_table import SCRIPT, module
from runner.cli.options import (
    Change,
    Device,
    Env,
    On,
    Results,
    With,
    complete_experiment,
    experiment_of,
    here,
    is_script,
    select,
)
from runner.cli.printing import say, show, show_document
from runner.core.errors import RequestError, reason_of
from runner.core.layout import Layout
from runner.core.temporary import temporary_folder
from runner.core.text import one_line
from runner.core.yaml_writer import to_json
from runner.definitions.choices import Selection
from runner.definitions.environment import read_words, values_of, variables_of
from runner.definitions.plan import Run, make_plan
from runner.definitions.program import ALONE
from runner.records.checked import Check, keep
from runner.targets import load
from runner.tools.check.checking import check as judge
from runner.tools.check.elsewhere import check_elsewhere
from runner.tools.check.mistakes import MISTAKE, Verdict
from runner.tools.check.processes import Program
from trainkit.sources import hash_sources

_DIFFERS, _UNKNOWN = 1, 4
_PROCESSES = "{n}"
_SAID = {
    "same": "{} processes train the same as one",
    "differs": "{} processes do not train the same as one",
    "unknown": "could not determine whether {} processes train the same as one",
}
_UNITS = {"samples": "epoch", "weights": "step", "gradients": "step", "losses": "step"}
_RESUMED = {
    "same": "a killed training resumes as if it had not been killed",
    "differs": "a killed training does not resume the same training",
    "unknown": "could not determine whether a killed training resumes the same training",
}


def check(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="SCRIPT|EXPERIMENT",
            autocompletion=complete_experiment,
            help="The training to check: a script, or an experiment's name.",
        ),
    ],
    arguments: Annotated[
        Optional[list[str]],
        typer.Argument(
            metavar="-- ARGS",
            help="The script's arguments; {n} becomes the number of processes, if it starts them itself.",
        ),
    ] = None,
    layout: Annotated[str, typer.Option(metavar="1xN", help="The number of processes to compare with one.")] = "1x2",
    steps: Annotated[
        int, typer.Option(min=0, help="End each run after this many optimizer steps; by default, only cut long epochs.")
    ] = 0,
    resume: Annotated[
        bool, typer.Option(help="Kill the training at a random step, and check how it resumes from its checkpoint.")
    ] = False,
    resume_args: Annotated[
        str,
        typer.Option(
            metavar="ARGS",
            help="Extra arguments to resume with; {checkpoint}: last file saved; {folder}: its folder.",
        ),
    ] = "",
    on: On = "local",
    with_: With = None,
    change: Change = None,
    env: Env = None,
    device: Device = "cpu",
    seconds: Annotated[float, typer.Option(min=1, help="Time limit of each run, in seconds.")] = 300,
    results: Results = Path("results"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check that N processes train the same as one.

    Runs the unedited program briefly with one process, with N, and with one that gets the batches of all N. Exit
    codes: 0 the same training, 1 not the same, 4 unknown.
    """
    world, chosen = _world(layout), select(experiment, arguments=arguments, change=change, device=device)
    first, program = request(chosen, world)
    args = {**first.cell.args, **read_words(env or ())}
    program.settings.update(values_of(variables_of(args)))
    if steps:
        program.settings.update(KIT_CHECK_STEPS=str(steps), KIT_CHECK_STEPS_HARD="1")
    again = split(resume_args) if resume or resume_args else None

    def tell(what: str) -> None:
        if not as_json:
            say(f"runs: {what}")

    if on == "local":
        with temporary_folder("check") as folder:
            verdict = judge(program, world, seconds, folder, tell, again)
    else:
        verdict = check_elsewhere(load(on, with_), first, program, world, seconds, tell, again)
    if as_json:
        show_document(to_json(verdict.values()))
    else:
        _show(verdict, _SAID if again is None else _RESUMED, world)
    if again is None:
        cell, root = first.cell, first.experiment.root
        kept = Check(
            verdict.word,
            hash_sources(cell.program.sources(root)),
            cell.program.name,
            args,
            [one_line(each.title, 300) for each in verdict.findings if each.level == MISTAKE][:50],
            verdict.off,
            verdict.order,
            verdict.not_checked,
        )
        try:
            keep(results, first.experiment.name, world, kept)
        except OSError as error:
            say(f"note: the verdict was not saved beside the records: {reason_of(error)}")
    if verdict.word != "same":
        raise typer.Exit(_DIFFERS if verdict.word == "differs" else _UNKNOWN)


def _world(layout: str) -> int:
    try:
        parsed = Layout.parse(layout)
    except ValueError as error:
        raise RequestError(f"--layout {layout}: {error}") from None
    if len(parsed.processes) > 1 or parsed.world_size < 2:
        raise RequestError(f"--layout {layout}: a check needs one node with at least two processes, for example 1x2")
    return parsed.world_size


def request(chosen: Selection, world: int) -> tuple[Run, Program]:
    """Return the run with one process, and the program with its command lines for one and for `world` processes."""
    runs: list[Run] = []
    line = chosen.arguments
    for processes in (1, world):
        if is_script(chosen.experiment):
            words = [word.replace(_PROCESSES, str(processes)) for word in line]
            runs.append(module(SCRIPT).run_of(here(), replace(chosen, arguments=words)))
        elif line:
            raise RequestError(f"{line[0]}: {chosen.experiment} is not a script; give arguments as --set name=value")
        else:
            one = replace(chosen, layouts=(f"1x{processes}",), repeat=1)
            runs.append(make_plan(experiment_of(chosen.experiment), one).runs[0])
    first, program = runs[0], runs[0].cell.program
    all_words = [[*run.cell.program.words, *run.cell.program.argv(run.cell.args)] for run in runs]
    alone = any(_PROCESSES in word for word in line) or ALONE in all_words[0]
    return first, Program(all_words, first.experiment.root, program.search, alone, chosen.device)


def _show(verdict: Verdict, words: dict[str, str], world: int) -> None:
    for fact in verdict.facts:
        show(one_line(f"seen: {fact}", 400))
    for finding in verdict.findings:
        show(one_line(f"{finding.level}: {finding.title}: {finding.evidence}", 400))
        show(f"  mend: {finding.mend}")
    for reason in verdict.unknown:
        show(one_line(f"unknown: {reason}", 400))
    show(f"{verdict.word}: {words[verdict.word].format(world)}")
    if verdict.word == "same":
        counts = (f"{what} of {n} {_UNITS[what]}{'s' * (n > 1)}" for what, n in verdict.compared.items())
        for name, parts in (("compared", list(counts)), ("not compared", verdict.not_checked)):
            if parts:
                show(one_line(f"  {name}: {'; '.join(parts)}", 600))
