"""The arguments that a program takes, read from its source without running it.

`read_interface` says which library reads a program's command line and what is taken there, `shortest` which of these
arguments make a run short.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from runner.definitions.options import (
    argparse_calls,
    click_calls,
    dataclasses_of_parsers,
    fire_signatures,
    hydra_configs,
    plain,
    typer_signatures,
)
from runner.definitions.options.configuration import find_configuration, first_word
from runner.definitions.options.option import Configuration, Interface, Option
from runner.definitions.options.sources import LARGEST_SOURCE, Code, Source, own_sources, read_code, unreadable
from runner.definitions.options.spelling import OMEGACONF

__all__ = [
    "FAMILIES",
    "LARGEST_SOURCE",
    "Configuration",
    "Interface",
    "Option",
    "own_sources",
    "read_interface",
    "shortest",
]


class Family(NamedTuple):
    """A library that reads command lines.

    `marks` are what a program calls that uses it: full names, or last parts of names that begin with a dot. `is_used`
    says of a file whether it uses the library, for what no name shows.
    """

    read: Callable[[Code], Interface]
    marks: frozenset[str] = frozenset()
    is_used: Callable[[Code, Source], bool] | None = None


FAMILIES = {
    "hydra": Family(hydra_configs.read, hydra_configs.MARKS),
    "hf": Family(dataclasses_of_parsers.read_hf, dataclasses_of_parsers.HF),
    "typer": Family(typer_signatures.read, typer_signatures.MARKS),
    "click": Family(click_calls.read, click_calls.MARKS),
    "tyro": Family(dataclasses_of_parsers.read_tyro, dataclasses_of_parsers.TYRO),
    "simple_parsing": Family(dataclasses_of_parsers.read_simple, dataclasses_of_parsers.SIMPLE),
    "jsonargparse": Family(dataclasses_of_parsers.read_jsonargparse, dataclasses_of_parsers.JSONARGPARSE),
    "fire": Family(fire_signatures.read, fire_signatures.MARKS),
    "argparse": Family(argparse_calls.read, argparse_calls.MARKS, argparse_calls.is_used),
    "omegaconf": Family(lambda _: Interface("omegaconf", is_open=True, style=OMEGACONF), frozenset({".from_cli"})),
    "constants": Family(plain.read_constants, is_used=plain.has_constants),
}
"""Of two in one file the first one counts; a file without any is plain."""
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


def read_interface(root: Path, path: Path, search: tuple[Path, ...] = ()) -> Interface:
    """Read what a program takes from its source and from what it imports; nothing is run.

    The library counts that the program's own file uses, or the nearest of those that it imports. RequestError, with
    file and line, if a source cannot be read as Python.
    """
    code = read_code(root, path, search)
    try:
        family = next((family for source in code.sources if (family := _family(code, source))), None)
        interface = family.read(code) if family else plain.read(code)
        configuration = find_configuration(code, interface.options)
    except RecursionError as error:
        raise unreadable(path, error) from None
    if configuration is None or family is not None:
        return replace(interface, configuration=configuration)
    words = first_word(code) if interface.is_open else {}
    configuration = replace(configuration, key=configuration.key or next(iter(words), ""))
    return replace(interface, kind="yaml", options=words, configuration=configuration)


def _family(code: Code, source: Source) -> Family | None:
    """Find the library that a file uses, if it uses one."""
    names = code.called(source)
    names |= {f".{name.rpartition('.')[2]}" for name in names}
    for family in FAMILIES.values():
        if names & family.marks or (family.is_used and family.is_used(code, source)):
            return family
    return None


def shortest(interface: Interface) -> dict[str, object]:
    """Return args that make a run short: one epoch, and a few steps; none if the program has no such argument."""
    names = {key.rpartition(".")[2] for key in interface.options}
    found = dict(interface.short)
    for key, option in interface.options.items():
        name = key.rpartition(".")[2]
        few = 1 if name in _EPOCHS else dataclasses_of_parsers.FEW_STEPS if name in _STEPS else None
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
