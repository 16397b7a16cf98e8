"""`runner check`."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Optional

import typer

from runner.cli.lines import say, show, show_document
from runner.cli.options import Change, Device, complete_experiment, device_of, here, plan_of
from runner.core.capabilities import capability
from runner.core.errors import RequestError
from runner.core.layout import Layout
from runner.core.temporary import temporary_folder
from runner.core.text import one_line
from runner.core.yaml_writer import to_json
from runner.definitions.plan import Cell
from runner.definitions.program import ALONE
from runner.tools.check.checking import Program, check as check_program
from runner.tools.check.finding import Verdict

_DIFFERS, _UNKNOWN = 1, 4
_PROCESSES = "{n}"


def check(
    experiment: Annotated[str, typer.Argument(metavar="SCRIPT|EXPERIMENT", autocompletion=complete_experiment)],
    arguments: Annotated[
        Optional[list[str]],
        typer.Argument(
            metavar="-- ARGS", help="The arguments of a script; {n} stands for the processes that it starts itself."
        ),
    ] = None,
    layout: Annotated[str, typer.Option(metavar="1xN", help="The processes that are checked against one.")] = "1x2",
    steps: Annotated[
        int, typer.Option(min=0, help="End each run after so many optimizer steps; by default long epochs are cut.")
    ] = 0,
    change: Change = None,
    device: Device = "cpu",
    seconds: Annotated[float, typer.Option(min=1, help="The longest that each of the runs may take.")] = 300,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say whether N processes train what one trains.

    The program runs a few short times, unedited: with one process, with N, and with one that is given the batches of
    all. Exit codes: 0 the same training, 1 it differs, 4 something decisive could not be seen.
    """
    world = _world(layout)
    chosen = device_of(device)
    program = _program(experiment, arguments or [], change or [], chosen, world)
    program = replace(program, settings={"KIT_CHECK_STEPS": str(steps), "KIT_CHECK_STEPS_HARD": "1"} if steps else {})
    with temporary_folder("check") as folder:
        verdict = check_program(program, world, seconds, folder, lambda what: None if as_json else say(f"runs: {what}"))
    if as_json:
        show_document(to_json(verdict.values()))
    else:
        _show(verdict, world)
    if verdict.word != "same":
        raise typer.Exit(_DIFFERS if verdict.word == "differs" else _UNKNOWN)


def _world(layout: str) -> int:
    try:
        parsed = Layout.parse(layout)
    except ValueError as error:
        raise RequestError(f"--layout {layout}: {error}") from None
    if len(parsed.processes) > 1 or parsed.world_size < 2:
        raise RequestError(f"--layout {layout}: a check takes one node with at least two processes, for example 1x2")
    return parsed.world_size


def _program(experiment: str, line: list[str], changes: list[str], device: str, world: int) -> Program:
    """Find the program, and its words for each number of processes."""
    cells: dict[int, Cell] = {}
    root, alone = Path(), False
    for processes in (1, world):
        if experiment.endswith((".py", ".ipynb")):
            root, cells[processes] = _of_script(
                experiment, [_filled(word, processes) for word in line], changes, device
            )
            alone = any(_PROCESSES in word for word in line)
        else:
            if line:
                raise RequestError(f"{line[0]}: {experiment} is no script; give arguments as --set name=value")
            planned = plan_of(experiment, [f"1x{processes}"], None, changes, 1, device)
            root, cells[processes] = planned.runs[0].experiment.root, planned.cells[0]
    words = {count: [*cell.program.words, *cell.program.argv(cell.args)] for count, cell in cells.items()}
    return Program(words.__getitem__, root, cells[1].program.search, alone or ALONE in words[1], device)


def _filled(word: str, processes: int) -> str:
    return word.replace(_PROCESSES, str(processes))


def _of_script(script: str, line: list[str], changes: list[str], device: str) -> tuple[Path, Cell]:
    scripts = capability("script")
    if scripts is None:
        raise RequestError(f"{script}: this kit lacks runner/tools/init, which reads scripts without a definition")
    path = Path(script).absolute()
    folder = here() if path.is_relative_to(here()) else path.parent
    found: tuple[Path, Cell] = scripts.cell_of(folder, str(path.relative_to(folder)), line, changes, device)
    return found


def _show(verdict: Verdict, world: int) -> None:
    for fact in verdict.facts:
        show(f"seen: {fact}")
    for finding in verdict.findings:
        place = f"{finding.file}:{finding.line}: " if finding.file else ""
        show(one_line(f"{finding.level}: {place}{finding.kind}: {finding.evidence}", 400))
        show(f"  mend: {finding.mend}")
    for reason in verdict.unknown:
        show(one_line(f"unknown: {reason}", 400))
    said = {
        "same": f"the same training with {world} processes as with one",
        "differs": f"{world} processes do not train what one trains",
        "unknown": "whether it is the same training cannot be said",
    }
    show(f"{verdict.word}: {said[verdict.word]}")
