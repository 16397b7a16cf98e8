"""`runner predict`."""

from dataclasses import fields
from pathlib import Path
from shlex import quote
from typing import Annotated, Optional

import typer

from runner.cli.columns import show_rows
from runner.cli.lines import say, show, show_document
from runner.cli.options import Layouts, Name, Only, Results, With, complete_target, experiment_of
from runner.core.errors import RequestError, did_you_mean
from runner.core.layout import Layout
from runner.core.text import MOST_NAMED
from runner.definitions import experiment as definition
from runner.definitions.choices import read_layouts, read_only
from runner.definitions.experiment import Experiment
from runner.report.reading import read_results
from runner.targets import TARGETS, find
from runner.tools.predict import MEASURE
from runner.tools.predict.answer import Answer, answer, measured_cells, to_plain
from runner.tools.predict.communication import Communication
from runner.tools.predict.forecast import NETWORK
from runner.tools.predict.links import Assumed, assumed_of
from runner.tools.predict.starts import CHOICES, Reader, Start, Wanted
from runner.tools.predict.words import advice, head_lines, notes, table

COMMUNICATIONS = ("ddp", "fp16", "powersgd", "local-sgd")
_MOST_CELLS = 500


def predict(
    name: Name,
    layout: Layouts = None,
    communication: Annotated[
        Optional[list[str]],
        typer.Option(
            metavar="CHOICE",
            help="ddp, shared-memory, fp16, bf16, powersgd=RANK, local-sgd=STEPS or diloco=STEPS, each with"
            " +accumulate=PARTS; may be given several times.",
        ),
    ] = None,
    only: Only = None,
    on: Annotated[
        str, typer.Option(metavar="TARGET", help="Only runs of this target.", autocompletion=complete_target)
    ] = "",
    with_: With = None,
    link: Annotated[
        Optional[str],
        typer.Option("--link", metavar="SPEED", help="A link between nodes to ask about: 100mbit to 100gbit."),
    ] = None,
    assume: Annotated[
        Optional[list[str]],
        typer.Option(
            metavar="NAME=VALUE", help="latency=0.2ms, bandwidth=1gbit or gradients=90MB, instead of what was measured."
        ),
    ] = None,
    results: Results = Path("results"),
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say what more processes would bring, before paying for them.

    From runs with one process and from runs that measured a network: the speed-up of each layout with each
    communication, with its interval, what limits it, and the cheapest layout that comes within 10% of the best.
    """
    experiment = experiment_of(name)
    if experiment.measure == MEASURE:
        raise RequestError(f"{experiment.name} measures a network: name an experiment that trains")
    assumed = assumed_of(link, assume or [])
    words = read_layouts(experiment, layout) or [str(value) for value in experiment.matrix["layout"]]
    layouts = [Layout.parse(word) for word in dict.fromkeys(["1x1", *words])]
    contents = read_results(results)
    for note in contents.notes:
        say(f"note: {note}")
    wanted = _wanted(experiment, only, on, with_)
    starts = Reader(results, contents.runs).starts(experiment.name, wanted, assumed.gradients)
    chosen = [Communication.parse(word) for word in communication] if communication else _usual(starts)
    if len(starts) * len(layouts) * len(chosen) > _MOST_CELLS:
        msg = f"{len(starts)} x {len(layouts)} layouts x {len(chosen)} communications: {_MOST_CELLS} are the most"
        raise RequestError(msg)
    answers = [answer(start, start.base, layouts, chosen, assumed) for start in starts if start.base is not None]
    network = _network_experiment(experiment)
    there = (f" --on {on}" if on else "") + "".join(f" --with {quote(word)}" for word in with_ or [])
    _require(answers, starts, experiment, results, network, layouts, assumed, there)
    for start in starts:
        if start.base is None:
            say(f"note: {start.name}: {start.why}")
    _show(answers, network, as_json=json)


def _show(answers: list[Answer], network: str, *, as_json: bool) -> None:
    from runner.report.markup import json as encode

    if as_json:
        show_document(encode({"predictions": [to_plain(prediction) for prediction in answers]}) + "\n")
        return
    for number, prediction in enumerate(answers):
        if number:
            show("")
        for text in head_lines(prediction):
            show(text)
        show_rows(table(prediction))
        for text in [*advice(prediction), *notes(prediction, network)]:
            show(f"- {text}")


def _wanted(experiment: Experiment, only: list[str] | None, on: str, with_: list[str] | None) -> Wanted:
    """Read which runs a prediction may start from."""
    axes = read_only(experiment, only or [])
    for axis in axes:
        if axis == "layout" or axis in CHOICES:
            way_out = "layouts with --layout" if axis == "layout" else "what is exchanged with --communication"
            raise RequestError(f"--only {axis}: choose {way_out}")
    return Wanted(axes, on, _options(on, with_ or []))


def _options(on: str, words: list[str]) -> dict[str, str]:
    """Read the options of the target that the runs were given; any target's, if none is named."""
    names = [on] if on else list(TARGETS) if words else []
    known = [option.name for name in names for option in fields(find(name).Options)]
    options: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        key = key.replace("-", "_")
        if not equals:
            raise RequestError(f"--with {word}: write name=value, as the runs were started with")
        if key not in known:
            has = f"target {on} has no" if on else "no target has an"
            raise RequestError(f"--with {word}: {has} option '{key}'{did_you_mean(key, known)}")
        if key in options:
            raise RequestError(f"--with {word}: '{key}' is given twice")
        options[key] = value
    return options


def _usual(starts: list[Start]) -> list[Communication]:
    """Return what is worth a look, and whatever was measured."""
    measured = [communication for start in starts for _, communication in measured_cells(start)]
    usual = [Communication.parse(word) for word in COMMUNICATIONS]
    return list(dict.fromkeys([*usual, *sorted(measured, key=str)]))


def _network_experiment(experiment: Experiment) -> str:
    """Name the project's experiment that measures a network, for the commands that are proposed."""
    for path in definition.files(experiment.root):
        try:
            if definition.load(path, experiment.root).measure == MEASURE:
                return path.stem
        except RequestError:
            continue
    return "network"


def _require(
    answers: list[Answer],
    starts: list[Start],
    experiment: Experiment,
    results: Path,
    network: str,
    layouts: list[Layout],
    assumed: Assumed,
    there: str,
) -> None:
    """Refuse in one line what cannot be predicted, with the command that measures what is missing."""
    if not starts:
        command = f"runner run {experiment.name} --layout 1x1 --repeat 1{there}"
        raise RequestError(f"{results}: no run of {experiment.name} with one process to predict from: {command}")
    if not answers:
        raise RequestError(f"{starts[0].name}: {starts[0].why}")
    several = [cell for cell in layouts if cell.world_size > 1]
    if several and all(line.expected.speedup is None for prediction in answers for line in prediction.lines[1:]):
        lacks = [lack for prediction in answers for line in prediction.lines[1:] for lack in line.expected.lacks]
        if NETWORK not in lacks:
            first = answers[0].lines[-1].expected
            what = f"{first.layout} {first.communication}: {first.lacks[0]}"
            raise RequestError(f"{experiment.name}: {what}: choose others with --layout")
        asked = " ".join(f"--layout {cell}" for cell in several[:MOST_NAMED])
        way_out = "" if assumed.has_link else ", or assume a link between nodes: --link 1gbit"
        msg = f"{results}: no run that measured the network: runner run {network} {asked} --repeat 1{there}{way_out}"
        raise RequestError(msg)
