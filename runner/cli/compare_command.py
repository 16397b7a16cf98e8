"""`runner compare`."""

from pathlib import Path
from typing import Annotated, Optional

import typer

from runner.cli import options
from runner.cli.printing import say, show, show_document
from runner.core.errors import RequestError
from runner.execution import signals
from runner.execution.versions import Choices, Kind, kind_of, run_in_turn, version_of
from runner.execution.worktrees import worktrees
from runner.report.run_summary import RunSummary
from runner.report.two_sides import Verdict, exit_code, judge, to_markdown, to_notes, to_plain, to_rows

REPEATS = 6
"""The default repeats of each side: three rounds of A, B, B, A."""
_SIDE = "A folder of results; or a commit, branch or tag, `.` for the uncommitted project, a .yaml file, or an image."


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help=_SIDE)],
    b: Annotated[str, typer.Argument(metavar="B", help="The version that may be a regression; the same forms as A.")],
    experiment: Annotated[
        Optional[str],
        typer.Option(
            help="The experiment to run, or to read from the results.", autocompletion=options.complete_experiment
        ),
    ] = None,
    on: options.On = "local",
    only: options.Only = None,
    layout: options.Layouts = None,
    change: options.Change = None,
    env: options.Env = None,
    repeat: options.Repeat = None,
    device: options.Device = "auto",
    results: options.Results = Path("results"),
    with_: options.With = None,
    with_files: options.WithFiles = None,
    no_observe: options.NoObserve = False,
    detect: Annotated[str, typer.Option(metavar="PERCENT", help="The smallest difference to detect.")] = "5%",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a Markdown table, for a comment.")] = False,
) -> None:
    """Test whether B is faster or slower than A.

    Two folders of results are compared as they are. Other versions are run first, alternating between A and B. Exit
    code 0: B is faster, or the difference is smaller than --detect; 1: B is slower, or a run failed; 4: undecided.
    """
    given = {"only": only, "layout": layout, "change": change, "env": env, "repeat": repeat}
    given |= {"no_observe": no_observe}
    if json and markdown:
        raise RequestError("--json and --markdown: choose one of them")
    share = _share(detect)
    root = options.project_root_or_here()
    kinds = [kind_of(word, root, on) for word in (a, b)]
    failed = False
    if with_files and Kind.COMMIT not in kinds:
        raise RequestError(f"--with-files {with_files[0]}: needs a commit, and neither side is one")
    if kinds == [Kind.RESULTS, Kind.RESULTS]:
        if on != "local" or with_ or any(given.values()):
            raise RequestError(f"{a}: results are compared as they are; leave out the options of runs")
        labels, sides = (a, b), (_read(Path(a), experiment), _read(Path(b), experiment))
    elif Kind.RESULTS in kinds:
        raise RequestError(
            f"{a} is {kinds[0].value}, {b} is {kinds[1].value}: compare two folders of results, or two versions to run"
        )
    else:
        chosen = options.select(experiment, device=device, **given | {"repeat": repeat or REPEATS})
        choices = Choices(on, options.options_of(on, with_), chosen)
        labels, sides = _run((a, b), kinds, choices, root, results, with_files or [])
        failed = any(run.status != "completed" for side in sides for run in side)
    verdicts = judge(*sides, share)
    code = 1 if failed else exit_code(verdicts)
    _show(labels, verdicts, share, code, form="json" if json else "markdown" if markdown else "")
    raise typer.Exit(code)


def _show(labels: tuple[str, str], verdicts: list[Verdict], detect: float, code: int, form: str) -> None:
    from runner.report.formats import json

    if form == "json":
        show_document(json({**to_plain(*labels, verdicts, detect), "exit_code": code}) + "\n")
    elif form == "markdown":
        show_document(to_markdown(*labels, verdicts, detect))
    else:
        for name, label in zip("AB", labels, strict=True):
            show(f"{name}: {label}")
        options.show_rows(to_rows(verdicts))
        for note in to_notes(verdicts, detect):
            show(f"- {note}")


def _share(text: str) -> float:
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1:
        raise RequestError(f"--detect {text}: write a difference between 0% and 100%, for example 5%")
    return value


def _read(folder: Path, experiment: str | None) -> list[RunSummary]:
    from runner.report.summarize import runs_of

    runs, notes = runs_of(folder, experiment)
    for note in notes:
        say(f"note: {note}")
    if not runs:
        raise RequestError(f"{folder}: no runs in it; name results/ or the folder of an experiment in it")
    return runs


def _run(
    words: tuple[str, str], kinds: list[Kind], choices: Choices, root: Path, results: Path, with_files: list[str]
) -> tuple[tuple[str, str], tuple[list[RunSummary], list[RunSummary]]]:
    from runner.cli.terminal import Screen

    with signals.taken() as interrupts, Screen() as screen, worktrees(root, interrupts, with_files) as check_out:
        a, b = (version_of(word, kind, choices, root, check_out) for word, kind in zip(words, kinds, strict=True))
        sides = run_in_turn((a, b), results, screen, interrupts)
    return (a.label, b.label), sides
