"""Options and helpers that several commands share."""

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
from runner.definitions.environment import read_words as read_variables
from runner.definitions.settings import find_project, nearest, settings_of
from runner.logs.metrics import read_words


def complete_experiment(begun: str) -> list[str]:
    """Complete the name of an experiment."""
    return [path.stem for path in definition.files(project_root_or_here()) if path.stem.startswith(begun)]


def complete_target(begun: str) -> list[str]:
    """Complete the name of a target."""
    from runner.targets import TARGETS

    return [name for name in TARGETS if name.startswith(begun)]


NAME = typer.Argument(
    metavar="EXPERIMENT",
    help="A name that `runner plan` lists, or a .yaml file.",
    autocompletion=complete_experiment,
)
On = Annotated[
    str, typer.Option(metavar="TARGET", help="Where to run; see `runner targets`.", autocompletion=complete_target)
]
Only = Annotated[
    Optional[list[str]], typer.Option(metavar="AXIS=VALUE", help="Only the cells with this value; may be repeated.")
]
Change = Annotated[
    Optional[list[str]],
    typer.Option("--set", metavar="ARG=VALUE", help="Another value for an arg of the program; may be repeated."),
]
Layouts = Annotated[
    Optional[list[str]],
    typer.Option("--layout", metavar="LAYOUT", help="Layouts instead of the definition's, for example 1x4,2x4."),
]
Repeat = Annotated[Optional[int], typer.Option(min=1, max=1000, help="Repeats of each cell.")]
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="auto: cuda if there is a GPU.")]
Env = Annotated[
    Optional[list[str]],
    typer.Option(
        "--env",
        metavar="NAME[=VALUE]",
        help="An environment variable of the processes; without =VALUE, this shell's value; may be repeated.",
    ),
]
WithFiles = Annotated[
    Optional[list[str]],
    typer.Option(
        "--with-files",
        metavar="PATH",
        help="A file or folder outside git, to link into a commit's folder; may be repeated.",
    ),
]
With = Annotated[
    Optional[list[str]],
    typer.Option(
        "--with",
        metavar="NAME=VALUE",
        help="An option of the target, see `runner targets TARGET`; may be repeated.",
    ),
]
Metric = Annotated[
    Optional[list[str]],
    typer.Option(
        metavar="NAME=REGEX",
        help="A figure to read from the output, by a regex with one group: loss='loss: ({number})'; may be repeated.",
    ),
]
NoObserve = Annotated[bool, typer.Option("--no-observe", help="Count and time nothing inside a script.")]
Results = Annotated[Path, typer.Option(metavar="FOLDER", help="The folder of the records.")]


def select(experiment: str | None = None, **words: Any) -> Selection:
    """Make a Selection from a command's options. `words` maps the parameters' names to their values."""
    if (scaling := words.get("scaling")) not in (None, *SCALINGS):
        raise RequestError(f"--scaling {scaling}: choose {' or '.join(SCALINGS)}")
    read_variables(words.get("env") or ())  # before a script's first run
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
        words.get("env") or (),
    )


def experiment_of(name: str) -> Experiment:
    """Load an experiment, given its name or path. Raises RequestError outside of a project."""
    if nearest(here()) is None and not name.endswith((".yaml", ".yml")):
        raise RequestError(
            f"no experiment '{one_line(name)}': this folder is not in a project; runner init makes it one, runner run"
            " train.py runs a script without one"
        )
    root = project_root()
    return definition.load(definition.find(name, root), root)


def is_script(word: str) -> bool:
    """Return whether a word names a script, or a folder to search for a script. If not, it names an experiment."""
    if word.endswith((".py", ".ipynb")):
        return True
    is_there = os.path.exists(word)  # noqa: PTH110 - a long name is no error
    return is_there and not word.endswith((".yaml", ".yml")) and word not in complete_experiment(word)


def device_of(word: str) -> str:
    """Return the device for `--device`. For auto, return cuda if this machine has a GPU."""
    from runner.records.provenance import gpus

    if word not in ("auto", *DEVICES):
        raise RequestError(f"--device {word}: choose one of auto, {', '.join(DEVICES)}")
    return word if word != "auto" else "cuda" if gpus() else "cpu"


def show_project() -> None:
    """Print the project's folder, and the file that marks it."""
    settings = find_project(here())
    say(f"project {settings.root} ({settings.source.name if settings.source else 'no settings'})")


def project_root() -> Path:
    """Return the project's folder. Raises RequestError outside of a project."""
    return find_project(here()).root


def project_root_or_here() -> Path:
    """Return the project's folder, or the current folder outside of a project."""
    settings = nearest(here())
    return settings.root if settings else here()


def options_of(target: str, words: list[str] | None) -> list[str]:
    """Return a target's `name=value` options, from the command line and the project's settings."""
    return settings_of(project_root_or_here()).words_for(target, words or [])


def here() -> Path:
    """Return the current folder. Raises RequestError if the folder was removed."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise RequestError("the current folder is gone: go to the project's folder") from None


def show_rows(rows: list[tuple[str, ...]]) -> None:
    """Print rows of words on stdout: in columns on a terminal, else separated by tabs."""
    if sys.stdout.isatty():
        from runner.cli.terminal import print_columns

        print_columns(rows)
        return
    for row in rows:
        show_document("\t".join(map(one_line, row)).rstrip() + "\n")
