"""What programs take whose command line is read by other libraries than argparse, or by hand."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from runner.definitions.options import argparse_calls
from runner.definitions.options.option import Interface
from runner.definitions.options.sources import Code, Source
from runner.tools.init.readers import (
    click_calls,
    dataclasses_of_parsers,
    fire_signatures,
    hydra_configs,
    plain,
    typer_signatures,
)
from runner.tools.init.readers.configuration import find_configuration, first_word
from runner.tools.init.readers.styles import OMEGACONF


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
    "argparse": Family(argparse_calls.read, is_used=argparse_calls.is_used),
    "omegaconf": Family(lambda _: Interface("omegaconf", is_open=True, style=OMEGACONF), frozenset({".from_cli"})),
    "constants": Family(plain.read_constants, is_used=plain.has_constants),
}
"""Of two in one file the first one counts; a file without any is plain."""


def read(code: Code) -> Interface:
    """Read what a program takes: the library counts that its own file uses, or the nearest of those that it imports."""
    family = next((family for source in code.sources if (family := _family(code, source))), None)
    interface = family.read(code) if family else plain.read(code)
    configuration = find_configuration(code, interface.options)
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
