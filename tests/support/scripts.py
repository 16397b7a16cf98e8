"""Scripts as people write them: what the runner reads of one, and what arrives if it is run with args."""

import contextlib
import io
import json
import runpy
import sys
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from runner.definitions import program
from runner.definitions.program import Program

NAME = "train.py"
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
    return program.find(folder, NAME)


def arrived(read: Program, args: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Check args as a definition's are, run the script with them, and return the JSON that it prints last."""
    for key, value in args.items():
        read.check(key, value)
    stdout, stderr = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "argv", [str(read.path), *read.argv(args)])
    monkeypatch.chdir(read.path.parent)
    code: object = 0
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        try:
            runpy.run_path(str(read.path), run_name="__main__")
        except SystemExit as ended:
            code = ended.code
    assert not code, f"{sys.argv[1:]}: {stderr.getvalue() or stdout.getvalue()}"
    return json.loads(stdout.getvalue().splitlines()[-1])


def check(name: str, case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold that every arg is read from the source, and, if the library is there, that all arrive as they were meant."""
    read = script(folder, case.source, **case.beside)
    assert read.interface.kind == name.partition(" ")[0]
    assert case.args.keys() <= read.options.keys() or not read.options
    assert {key for key, option in read.options.items() if option.required} == case.required
    assert read.interface.is_open == case.is_open
    pytest.importorskip(case.library, reason=f"{case.library} is not installed")
    printed = case.printed
    if isinstance(printed, dict):
        every = {**{key: value for key, value in case.args.items() if "." not in key}, **printed}
        printed = {key: value for key, value in every.items() if value is not ABSENT}
    assert arrived(read, case.args, monkeypatch) == printed
