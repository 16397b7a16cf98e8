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
from runner.definitions.options.first_try import shortest
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

    Args:
        read: says what a program takes that uses the library.
        marks: what such a program calls: full names, or last parts of names that begin with a dot.
        is_used: says of a file whether it uses the library, for what no name shows.
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
