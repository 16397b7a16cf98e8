"""The arguments that a program takes, read from its source without running it.

`read_interface` says which library reads a program's command line and what is taken there, `shortest` which of these
arguments make a run short.
"""

from __future__ import annotations

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
    """A library that reads command lines: whether a file uses it, and what a program that does takes."""

    marks: Callable[[Code, Source], bool]
    read: Callable[[Code], Interface]


FAMILIES = {
    "hydra": Family(hydra_configs.marks, hydra_configs.read),
    "hf": Family(dataclasses_of_parsers.marks_hf, dataclasses_of_parsers.read_hf),
    "typer": Family(typer_signatures.marks, typer_signatures.read),
    "click": Family(click_calls.marks, click_calls.read),
    "tyro": Family(dataclasses_of_parsers.marks_tyro, dataclasses_of_parsers.read_tyro),
    "simple_parsing": Family(dataclasses_of_parsers.marks_simple, dataclasses_of_parsers.read_simple),
    "jsonargparse": Family(dataclasses_of_parsers.marks_jsonargparse, dataclasses_of_parsers.read_jsonargparse),
    "fire": Family(fire_signatures.marks, fire_signatures.read),
    "argparse": Family(argparse_calls.marks, argparse_calls.read),
    "omegaconf": Family(hydra_configs.marks_omegaconf, hydra_configs.read_omegaconf),
    "constants": Family(plain.marks_constants, plain.read_constants),
}
"""Of two in one file the first one counts; a file without any is plain."""


def read_interface(root: Path, path: Path, search: tuple[Path, ...] = ()) -> Interface:
    """Read what a program takes from its source and from what it imports; nothing is run.

    The library counts that the program's own file uses, or the nearest of those that it imports.

    Args:
        root: the project's folder.
        path: the program.
        search: further folders in which imported modules are found.

    Raises:
        RequestError: a source cannot be read as Python; with file and line.

    """
    code = read_code(root, path, search)
    try:
        return _read(code)
    except RecursionError as error:
        raise unreadable(path, error) from None


def _read(code: Code) -> Interface:
    marked = (family for source in code.sources for family in FAMILIES.values() if family.marks(code, source))
    family = next(marked, None)
    interface = family.read(code) if family else plain.read(code)
    configuration = find_configuration(code, interface.options)
    if configuration is None or family is not None:
        return replace(interface, configuration=configuration)
    words = first_word(code) if interface.is_open else {}
    configuration = replace(configuration, key=configuration.key or next(iter(words), ""))
    return replace(interface, kind="yaml", options=words, configuration=configuration)
