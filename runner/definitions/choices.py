"""Parse options that modify an experiment: `--layout`, `--only`, `--set`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from runner.core.errors import RequestError, did_you_mean
from runner.core.layout import Layout
from runner.core.text import one_line
from runner.core.yaml_reader import scalar
from runner.definitions.args import unfit, wrong_name
from runner.definitions.definition import Experiment, identity
from runner.definitions.experiment import refused_layout, too_many


@dataclass(frozen=True)
class Selection:
    """The command-line options for an experiment. If an option is absent, the definition's value is used.

    `experiment` is a name or the path of a script. `arguments` are the script's arguments, which follow `--`. If
    `observed`, the kit may measure inside a script.
    """

    experiment: str = ""
    arguments: Sequence[str] = ()
    device: str = "cpu"
    layouts: Sequence[str] = ()
    only: Sequence[str] = ()
    changes: Sequence[str] = ()
    repeat: int | None = None
    scaling: str | None = None
    metrics: Mapping[str, str] = field(default_factory=dict)
    observed: bool = True
    variables: Sequence[str] = ()


def read_layouts(experiment: Experiment, words: Sequence[str]) -> list[str] | None:
    """Parse `--layout 1x4,2+3` into layouts that replace the definition's. Returns None if the option is absent."""
    try:
        parts = [part for word in words for part in word.split(",")]
        layouts = list(dict.fromkeys(str(Layout.parse(part)) for part in parts))
    except ValueError as error:
        _refuse(f"--layout: {error}")
    if wrong := too_many({**experiment.matrix, "layout": layouts}) or refused_layout(experiment, layouts):
        _refuse(f"--layout: {wrong}")
    return layouts or None


def read_only(experiment: Experiment, words: Sequence[str]) -> dict[str, set[object]]:
    """Parse each `--only axis=value[,value]`. Returns the chosen values of each axis, as `identity` writes them."""
    chosen: dict[str, set[object]] = {}
    for word in words:
        axis, equals, text = _split(word)
        if not equals:
            _refuse(f"--only {word}: write axis=value, for example --only layout=1x2")
        if axis not in experiment.matrix:
            _refuse(f"--only {word}: unknown axis '{axis}' of {experiment.name}{did_you_mean(axis, experiment.matrix)}")
        values = experiment.matrix[axis]
        for part in text.split(","):
            names = (part, _canonical(axis, part))
            if not (found := [value for value in values if str(value) in names]):
                hint = "; use --layout for others" if axis == "layout" else ""
                has = f"it has {', '.join(map(str, values))}{hint}"
                _refuse(f"--only {word}: {experiment.name} has no {axis} '{part}'; {has}")
            chosen.setdefault(axis, set()).update(map(identity, found))
    return chosen


def read_changes(experiment: Experiment, words: Sequence[str]) -> dict[str, Any]:
    """Parse each `--set arg=value` into an arg.

    If all programs are modules of families, `-` in a name becomes `_`, as definitions spell it.
    """
    changed: dict[str, Any] = {}
    of_families = not any(program.files for program in experiment.programs.values())
    for word in words:
        key, value = read_change(word)
        key = key.replace("-", "_") if of_families else key
        if key in experiment.matrix:
            axis = f"'{key}' is an axis of {experiment.name}; choose its values with --only {key}=..."
            _refuse(f"--set {word}: {axis}")
        changed[key] = value
    return changed


def read_change(word: str) -> tuple[str, Any]:
    """Parse one `--set arg=value` into the arg's name and its value."""
    key, equals, text = _split(word)
    if not equals or not key:
        _refuse(f"--set {word}: write arg=value, for example --set epochs=1")
    if not text.isprintable():
        _refuse(f"--set {word}: the value has unprintable characters")
    value = scalar(text)
    value = text if isinstance(value, list | dict) else value
    if wrong := wrong_name(key) or unfit(value):
        _refuse(f"--set {word}: {wrong}")
    return key, value


def _split(word: str) -> tuple[str, str, str]:
    key, equals, text = word.partition("=")
    return (f"{key}=", equals, text[1:]) if text.startswith("=") else (key, equals, text)


def _canonical(axis: str, text: str) -> str:
    if axis != "layout":
        return str(scalar(text))
    try:
        return str(Layout.parse(text))
    except ValueError as error:
        _refuse(f"--only layout={text}: {error}")


def _refuse(message: str) -> NoReturn:
    raise RequestError(one_line(message))
