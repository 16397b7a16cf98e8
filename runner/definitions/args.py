"""Args: what the program is started with. Which names and values they may have."""

from __future__ import annotations

import re
import shlex
from typing import Any

from runner.core.errors import did_you_mean
from runner.core.text import shown
from runner.core.values import LARGEST_WHOLE
from runner.core.yaml_reader import Document
from runner.core.yaml_writer import to_yaml
from runner.definitions.options.spelling import spell

NAME = r"[A-Za-z][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*"
"""A dot stands in the names of nested settings, as Hydra's `optimizer.lr`."""
LONGEST_TEXT = 10_000
LONGEST_HINT = 200
_SEVERAL = 2
RESERVED = {
    "scaling": "the scaling is declared by the definition's own key 'scaling'",
    "device": "the device is chosen on the command line, by --device",
}
THREADS = "threads"
"""The CPU threads of one process, as `trainkit.arguments` declares them for every program."""
DEVICES = "devices"
"""The devices of one process, for a program that takes several."""
_NAME = re.compile(NAME)


def read_args(document: Document, matrix: dict[str, list[Any]]) -> dict[str, Any]:
    """Read `args`: a mapping of names to values."""
    args = read_mapping(document, "args")
    for key, value in args.items():
        check_arg(document, key, value, "args", key)
        if key in matrix:
            document.fail(f"'{key}' stands in args and in the matrix; keep one of them", "args", key)
    return dict(args)


def read_program_args(document: Document, matrix: dict[str, list[Any]]) -> dict[str, dict[str, Any]]:
    """Read the args that only one program of the matrix is given, on top of `args`."""
    by_program = read_mapping(document, "program_args")
    for name, args in by_program.items():
        if name not in matrix.get("program", []):
            known = did_you_mean(name, matrix.get("program", []))
            document.fail(f"'{name}' is no program of the matrix{known}", "program_args", name)
        if not isinstance(args, dict):
            document.fail(f"'{name}' has to be a mapping of args to values, not {shown(args)}", "program_args", name)
        for key, value in args.items():
            check_arg(document, key, value, "program_args", name, key)
            if key in matrix:
                document.fail(f"'{key}' stands here and in the matrix; keep one of them", "program_args", name, key)
    return by_program


def read_mapping(document: Document, key: str) -> dict[str, Any]:
    """Read a key whose value is a mapping; without it, an empty one."""
    value = document.values.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        document.fail(f"'{key}' has to be a mapping of names to values, not {shown(value)}", key)
    return value


def check_arg(document: Document, key: str, value: object, *path: str | int) -> None:
    """Refuse a name or a value that no command line can carry."""
    if not _NAME.fullmatch(key):
        document.fail(f"arg '{key}' has to be a word of letters, digits and underscores", *path)
    if key in RESERVED:
        document.fail(RESERVED[key], *path)
    if wrong := unfit(value):
        document.fail(f"arg '{key}' {wrong}{_as_text(key, value)}", *path)


def _as_text(key: str, value: object) -> str:
    """Say how a list of values is written: as one text, in the way of the library that reads it."""
    if (
        not isinstance(value, list)
        or not _SEVERAL <= len(value) <= LONGEST_HINT
        or None in value
        or any(map(unfit, value))
    ):
        return ""
    words, items = to_yaml({key: shlex.join(map(spell, value))}), to_yaml({key: f"[{', '.join(map(spell, value))}]"})
    hint = f"{words.rstrip()} (for Hydra, OmegaConf and Fire {items.rstrip()})"
    return f"; several values are one text: {hint}" if len(hint) <= LONGEST_HINT and "\n" not in hint else ""


def unfit(value: object) -> str | None:
    """Return what is wrong with the value of an arg, if anything."""
    if value is not None and not isinstance(value, str | int | float):
        return f"has to be a number, a text, true or false, not {shown(value)}"
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        return "is too large: a whole number has 63 bits at most; quote it to pass it on as text"
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return f"is too long: a text has {LONGEST_TEXT:,} characters at most"
    return None


def value_schema() -> dict[str, Any]:
    """Return the JSON Schema of one value."""
    return {
        "type": ["string", "number", "boolean", "null"],
        "maxLength": LONGEST_TEXT,
    }


def names_schema() -> dict[str, Any]:
    """Return the JSON Schema of the names of args and axes."""
    return {"pattern": f"^(?:{NAME})$", "not": {"enum": list(RESERVED)}}


def args_schema() -> dict[str, Any]:
    """Return the JSON Schema of `args`."""
    return {
        "description": "What every program is given; each becomes --key value. null: the program's own default.",
        "type": ["object", "null"],
        "propertyNames": names_schema(),
        "additionalProperties": value_schema(),
    }


def program_args_schema() -> dict[str, Any]:
    """Return the JSON Schema of `program_args`."""
    return {
        "description": "What only one program of the matrix is given, on top of args.",
        "type": ["object", "null"],
        "additionalProperties": {**args_schema(), "description": "The args of this program.", "type": "object"},
    }
