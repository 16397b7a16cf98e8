"""What several commands share: options, what they stand for, and rows of words."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from runner.cli.printing import say, show_document
from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.definitions import experiment as definition
from runner.definitions.choices import Selection
from runner.definitions.definition import DEVICES, SCALINGS, Experiment
from runner.definitions.settings import find_project, nearest, settings_of
from runner.logs.metrics import read_words


def complete_experiment(begun: str) -> list[str]:
    """Complete an experiment's name."""
    return [path.stem for path in definition.files(project_root_or_here()) if path.stem.startswith(begun)]


def complete_target(begun: str) -> list[str]:
    """Complete a target's name."""
    from runner.targets import TARGETS

    return [name for name in TARGETS if name.startswith(begun)]


NAME = typer.Argument(
    metavar="EXPERIMENT",
    help="A name that `runner plan` lists, or a .yaml file.",
    autocompletion=complete_experiment,
)
On = Annotated[
    str, typer.Option(metavar="TARGET", help="Where; `runner targets` lists them.", autocompletion=complete_target)
]
Only = Annotated[
    Optional[list[str]], typer.Option(metavar="AXIS=VALUE", help="Only these cells; may be given several times.")
]
Change = Annotated[
    Optional[list[str]], typer.Option("--set", metavar="ARG=VALUE", help="Another value for an arg of the program.")
]
Layouts = Annotated[
    Optional[list[str]],
    typer.Option("--layout", metavar="LAYOUT", help="Other layouts than the definition's, for example 1x4."),
]
Repeat = Annotated[Optional[int], typer.Option(min=1, max=1000, help="Repeats of each cell.")]
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="auto: cuda if there is a GPU.")]
WithFiles = Annotated[
    Optional[list[str]],
    typer.Option(
        "--with-files",
        metavar="PATH",
        help="A file or folder that git does not hold, for the folder of a commit; may be given several times.",
    ),
]
With = Annotated[
    Optional[list[str]],
    typer.Option(
        "--with",
        metavar="NAME=VALUE",
        help="An option of the target, from `runner targets`; may be given several times.",
    ),
]
Metric = Annotated[
    Optional[list[str]],
    typer.Option(
        metavar="NAME=REGEX",
        help="A figure of the output, by an expression with one group: loss='loss: ({number})'; may be repeated.",
    ),
]
NoObserve = Annotated[bool, typer.Option("--no-observe", help="Leave a script alone: count and time nothing inside.")]
Results = Annotated[Path, typer.Option(metavar="FOLDER", help="The folder of the records.")]


def select(experiment: str | None = None, **words: Any) -> Selection:
    """Read the words of a command line about an experiment, by the names of the options; others are ignored."""
    if (scaling := words.get("scaling")) not in (None, *SCALINGS):
        raise RequestError(f"--scaling {scaling}: there is {' and '.join(SCALINGS)}")
    return Selection(
        experiment or "",
        words.get("arguments") or (),
        device_of(words["device"]),
        words.get("layout") or (),
        words.get("only") or (),
        words.get("change") or (),
        words.get("repeat"),
        scaling,
        {name: metric["pattern"] for name, metric in read_words(words.get("metric") or []).items()},
        not words.get("no_observe"),
    )


def experiment_of(name: str) -> Experiment:
    """Load an experiment."""
    if nearest(here()) is None and not name.endswith((".yaml", ".yml")):
        raise RequestError(
            f"no experiment '{one_line(name)}', for this folder is in no project: runner run train.py runs a script"
            " without one, runner init makes it one"
        )
    root = project_root()
    return definition.load(definition.find(name, root), root)


def is_script(word: str) -> bool:
    """Return whether a word names a script, or a folder to search for one, rather than an experiment."""
    if word.endswith((".py", ".ipynb")):
        return True
    is_there = os.path.exists(word)  # noqa: PTH110 - a long name is no error
    return is_there and not word.endswith((".yaml", ".yml")) and word not in complete_experiment(word)


def device_of(word: str) -> str:
    """Choose a device."""
    from runner.records.provenance import gpus

    if word not in ("auto", *DEVICES):
        raise RequestError(f"--device {word}: there is auto, {', '.join(DEVICES)}")
    return word if word != "auto" else "cuda" if gpus() else "cpu"


def show_project() -> None:
    """Print the project, and the file that marks it."""
    settings = find_project(here())
    say(f"project {settings.root} ({settings.source.name if settings.source else 'no settings'})")


def project_root() -> Path:
    """Return the project's folder."""
    return find_project(here()).root


def project_root_or_here() -> Path:
    """Return the project's folder; the current one if it is in no project."""
    settings = nearest(here())
    return settings.root if settings else here()


def options_of(target: str, words: list[str] | None) -> list[str]:
    """Return the `name=value` words for a target, of the command line and of the project's settings."""
    return settings_of(project_root_or_here()).words_for(target, words or [])


def here() -> Path:
    """Return the current folder."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise RequestError("the current folder is gone: go to the project's folder") from None


def show_rows(rows: list[tuple[str, ...]]) -> None:
    """Print rows of words on stdout: in columns on a terminal, with a tab between them into a pipe."""
    if sys.stdout.isatty():
        from runner.cli.terminal import print_columns

        print_columns(rows)
        return
    for row in rows:
        show_document("\t".join(map(one_line, row)).rstrip() + "\n")
