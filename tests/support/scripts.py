"""Scripts as people write them, and what the runner reads of one."""

import textwrap
from pathlib import Path
from typing import Any, NamedTuple

from runner.definitions import program
from runner.definitions.program import Program

ABSENT = object()
"""In the place of an arg that the script does not print."""


class Case(NamedTuple):
    """A script of a library, the args of a definition, what the script prints with them, and which args it needs.

    A mapping has what is printed otherwise than it stands in the args; those with dots are not printed as they are.
    """

    library: str
    source: str
    args: dict[str, Any]
    printed: Any
    required: frozenset[str] = frozenset()
    beside: dict[str, str] = {}  # noqa: RUF012 - it is not changed
    is_open: bool = False


def script(folder: Path, source: str, **others: str) -> Program:
    """Write a script, and others beside it (`conf__config_yaml` for `conf/config.yaml`), and read what it takes."""
    for name, text in {"train_py": source, **others}.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), "utf-8")
    return program.find(folder, "train.py")
