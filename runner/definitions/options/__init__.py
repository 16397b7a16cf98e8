"""The arguments that a program takes, read from its source without running it.

What argparse takes is read here; programs of other libraries are read by the tool `init`, and not checked without it.
"""

from dataclasses import replace
from pathlib import Path

from runner.core.capabilities import capability
from runner.definitions.options import argparse_calls
from runner.definitions.options.option import Configuration, Interface, Option
from runner.definitions.options.sources import LARGEST_SOURCE, Code, read_code, unreadable

__all__ = ["LARGEST_SOURCE", "Configuration", "Interface", "Option", "read_code", "read_interface"]

_OTHER_PARSERS = {
    *("click", "rich_click", "asyncclick", "cloup", "typer", "fire", "hydra", "omegaconf", "tyro", "simple_parsing"),
    *("jsonargparse", "lightning", "pytorch_lightning", "transformers", "trl"),
}
"""Libraries that read a command line otherwise than argparse."""


def read_interface(root: Path, path: Path, search: tuple[Path, ...] = ()) -> Interface:
    """Read what a program takes from its source and from what it imports; nothing is run.

    RequestError, with file and line, if a source cannot be read as Python.
    """
    code = read_code(root, path, search)
    readers = capability("readers")
    try:
        interface: Interface = readers.read(code) if readers else _read_argparse(code)
    except RecursionError as error:
        raise unreadable(path, error) from None
    return interface


def _read_argparse(code: Code) -> Interface:
    """Read a program of argparse; of another one, or beside another library, nothing is refused."""
    if not any(argparse_calls.is_used(code, source) for source in code.sources):
        return Interface("plain", is_open=True)
    interface = argparse_calls.read(code)
    return replace(interface, is_open=interface.is_open or bool(code.outside & _OTHER_PARSERS))
