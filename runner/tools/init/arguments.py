"""The arguments of a script: those that it does not start without, those of a first try, and how a person sees them."""

import re
import shlex
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.core.yaml_reader import scalar
from runner.core.yaml_writer import to_yaml
from runner.definitions.args import NAME, RESERVED, unfit
from runner.definitions.choices import read_change
from runner.definitions.options.option import JOINED, LISTED, REPEATED, TYPED, WORDS, Interface, Option, spell
from runner.definitions.program import Program
from runner.tools.init.readers.dataclasses_of_parsers import FEW_STEPS

LONGEST_VALUE = 60
LONGEST_LIST = 40
"""Options that a definition lists."""
_KINDS = {"int": "a whole number", "float": "a number", **dict.fromkeys(("flag", "switch", "bool"), "true or false")}
_CONFIGS = ("configs", "config", "conf", ".")
_NUMBER = re.compile(r"-[\d.].*")
_HYDRA = "Hydra: any other setting is an arg too, by its dotted name, for example optimizer.lr: 0.1"
_EPOCHS = {
    *("epochs", "num_epochs", "n_epochs", "nepochs", "max_epochs", "max_epoch", "num_train_epochs", "train_epochs"),
    *("total_epochs", "training_epochs", "n_epoch", "num_epoch", "nb_epochs", "nb_epoch", "nepoch", "epoch"),
}
_STEPS = {
    *("max_steps", "max_train_steps", "num_train_steps", "num_training_steps", "train_steps", "training_steps"),
    *("total_steps", "num_steps", "n_steps", "steps", "max_iters", "max_iter", "num_iters", "n_iters", "iters"),
    *("num_iterations", "max_iterations", "n_iterations", "iterations", "train_iters", "num_iter", "max_updates"),
    *("total_iters", "total_iterations", "limit_train_batches", "max_step", "num_batches_per_epoch"),
}
_OTHERS_HOLD = {"epoch": _EPOCHS - {"epoch"}}
"""`epoch` is the number of epochs only if nothing else is: elsewhere it is where a training goes on."""


@dataclass(frozen=True)
class Again:
    """The command that a person gives again, `runner init`; `line` are the words that were typed behind `--`."""

    command: str
    line: tuple[str, ...] = ()

    def with_args(self, program: Program, args: Mapping[str, object]) -> str:
        """Write it with further arguments, in the way in which the person gives them."""
        if self.line:
            return f"{self.command} -- {shlex.join([*self.line, *program.argv(dict(args))])}"
        return f"{self.command} {' '.join(f'--set {key}={spell(value)}' for key, value in args.items())}"

    @property
    def example(self) -> str:
        """Write it with arguments of any name."""
        return f"{self.command} -- ARGS" if self.line else f"{self.command} --set name=value"


def missing(program: Program, args: dict[str, Any]) -> list[str]:
    """List the arguments without a default that have no value; if no subcommand is named, those of the first."""
    first = {key: option.choices[0] for key, option in program.options.items() if option.depth == 1 and option.choices}
    options = program.of_subcommand({**first, **args}).options.items()
    return [key for key, option in options if option.required and args.get(key) is None and key not in RESERVED]


def needs(script: str, names: list[str], program: Program, root: Path, again: Again) -> str:
    """Return the line that names arguments which a script does not start without, and how to give them."""
    words = again.with_args(program, {name: _example(name, program, root) for name in names})
    many = "s" if len(names) > 1 else ""
    return one_line(f"{script} does not start without the argument{many} {', '.join(names)}: {words}")


def _example(name: str, program: Program, root: Path) -> str:
    """Return a value that could be meant: one of the choices, or a file of settings that is there."""
    option, configuration = program.interface.option(name), program.interface.configuration
    if option.choices:
        return str(option.choices[0])
    if configuration and configuration.key == name:
        found = (path for folder in _CONFIGS for path in sorted((root / folder).glob(f"*.{configuration.form}")))
        return configuration.path or next((path.relative_to(root).as_posix() for path in found), "VALUE")
    return "VALUE"


def for_first_try(program: Program, args: dict[str, Any]) -> dict[str, Any]:
    """Return args that make a run short, beside those that a person gave."""
    found = {}
    for key, value in shortest(program.interface).items():
        if key not in args and _may_stand(key):
            try:
                program.check(key, value)
            except RequestError:
                continue
            found[key] = value
    return found


def shortest(interface: Interface) -> dict[str, object]:
    """Return args that make a run short: one epoch, and a few steps; none if the program has no such argument."""
    names = {key.rpartition(".")[2] for key in interface.options}
    found = dict(interface.short)
    for key, option in interface.options.items():
        name = key.rpartition(".")[2]
        few = 1 if name in _EPOCHS else FEW_STEPS if name in _STEPS else None
        default = _number(option.default)
        is_untyped = option.kind == "value" and (option.default is None or default is not None)
        if few is None or names & _OTHERS_HOLD.get(name, set()) or not (is_untyped or option.kind in ("int", "float")):
            continue
        if default is not None and 1 <= default <= few:
            few = int(default)
        few = max(few, option.least or 0)
        if option.refuses(few) is None:
            found[key] = few
    return found


def _number(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
    except ValueError:
        return None


def of_line(program: Program, line: list[str]) -> dict[str, Any]:
    """Read arguments as the script's own command line has them, `--epochs 1 --amp`; RequestError if it does not fit."""
    options, assigns = program.options, program.interface.style.assigns
    keys = {word: key for key, option in options.items() for word in (option.spelling, *option.aliases)}
    negated = {option.off or f"--no-{option.spelling[2:]}": key for key, option in options.items()}
    places = [key for key, option in options.items() if option.positional]
    found: dict[str, list[str]] = {}
    words = deque(line)
    while words:
        word = words.popleft()
        name, equals, value = word.partition("=")
        if name not in keys and word[:2] in keys:  # a short name with its value, -b4
            name, equals, value = word[:2], "=", word[2:]
        values = [value]
        if assigns and equals:
            key = keys.get(name, name)
        elif name not in keys and not equals and _is_typed(word, words, program.interface):
            key, values = word, ["true"] if not _has_value(words, assigns=assigns) else [words.popleft()]
        elif not word.startswith("-") and places:
            key, values = places.pop(0), [word]
        elif name not in keys and not word.startswith("--"):
            raise RequestError(
                f"argument {one_line(word, 100)}: the source of {program.name} does not declare it: write --name value"
            )
        else:
            key = keys.get(name) or negated.get(name) or name.lstrip("-").replace("-", "_")
            option = program.interface.option(key)
            if not equals and (name in negated or option.kind in ("flag", "switch")):
                values = [spell(name not in negated)]
            elif not equals:
                values = _values(words, program, word, many=option.many == LISTED)
        if key in RESERVED:
            raise RequestError(f"argument {one_line(word, 100)}: {RESERVED[key]}; give that before the --")
        found[key] = found.get(key, []) + values if program.interface.option(key).many == REPEATED else values
    return {key: _read_value(program.interface.option(key), key, values) for key, values in found.items()}


def _is_typed(word: str, words: deque[str], interface: Interface) -> bool:
    """Return whether an option that no source declares is passed on as it is: a flag, or an option of Hydra's own."""
    assigns = interface.style.assigns
    return interface.is_open and word.startswith((*TYPED,)) and (assigns or not _has_value(words))


def _has_value(words: deque[str], *, assigns: bool = False) -> bool:
    """Return whether what follows on an option that no source declares may be its value."""
    if not words or (assigns and ("=" in words[0] or words[0][:1] in ("+", "~"))):
        return False
    return not words[0].startswith("-") or bool(_NUMBER.fullmatch(words[0]))


def _values(words: deque[str], program: Program, name: str, *, many: bool) -> list[str]:
    """Take the value, or the values, that stand behind the name of an argument."""
    values: list[str] = []
    while (many or not values) and _has_value(words):
        values.append(words.popleft())
    if not values:
        msg = f"argument {one_line(name, 100)} of {program.name} has no value: write {one_line(name, 100)}=VALUE"
        raise RequestError(msg)
    return values


def _read_value(option: Option, key: str, values: list[str]) -> Any:
    """Return the value that is written as it was: `007`, a text, is no number 7."""
    text = shlex.join(values) if option.many else values[-1]
    is_text = option.kind == "value" and option.style in (WORDS, JOINED)
    if is_text and isinstance(number := scalar(text), int) and unfit(number):
        return text
    _, value = read_change(f"{key}={text}")
    if is_text:
        is_same = value is not None and not option.many and option.words(value) == option.words(text)
        return value if is_same else text
    if value is None:
        raise RequestError(f"argument {key}={text}: leave it out, and the program takes its own default")
    return value


def lines(program: Program, args: dict[str, Any]) -> Iterator[str]:
    """Write the args of a definition, and as comments what else the script takes; each can be used as it stands."""
    others = {key: option for key, option in program.options.items() if key not in args and _may_stand(key)}
    interface = program.interface
    if args:
        yield "args:"
        yield from (f"  {to_yaml({key: value}).rstrip()}" for key, value in args.items())
    if others:
        yield "# It takes these args, with these defaults; a list of values below matrix makes an axis of one:"
        yield "# args:" if not args else "#"
        yield from (f"#   {describe(key, option)}" for key, option in list(others.items())[:LONGEST_LIST])
        if len(others) > LONGEST_LIST:
            yield f"#   ... and {len(others) - LONGEST_LIST} more"
    elif not args and not interface.is_open:
        yield "# It takes no arguments."
    if interface.kind == "hydra":
        yield f"# {_HYDRA}"
    elif interface.configuration:
        path = f" {interface.configuration.path}" if interface.configuration.path else ""
        named = f"; the arg {interface.configuration.key} names the file" if interface.configuration.key else ""
        yield one_line(f"# It reads further settings from a {interface.configuration.form.upper()} file{path}{named}.")


def describe(key: str, option: Option) -> str:
    """Describe an option in one line, as it would stand below `args`."""
    kind = "one of " + ", ".join(map(str, option.choices)) if option.choices else _KINDS.get(option.kind, "")
    default = option.default if unfit(option.default) is None else None
    value = "" if default is None else to_yaml({key: default}).rstrip().partition(": ")[2]
    if "\n" in value or len(value) > LONGEST_VALUE:
        value = ""
    return f"{key}: {value}".rstrip() + (f"  # {one_line(kind, LONGEST_VALUE)}" if kind else "")


def _may_stand(key: str) -> bool:
    return bool(re.fullmatch(NAME, key)) and key not in RESERVED
