"""Args: the words that a program is started with. Which names and values they may have."""

import re

from runner.core.text import shown
from runner.core.values import LARGEST_WHOLE
from runner.core.yaml_reader import Document
from runner.definitions.keys import Node

REST = "--"
"""The arg whose values are words as they stand, without a name before them."""
NAME = rf"(?:\+\+?|~)?[A-Za-z][\w-]*(?:[./@][\w-]+)*=?|--?[A-Za-z][\w.-]*|{REST}"
"""A name as the program spells it, with dots as Hydra's `optimizer.lr=`, or with its hyphens."""
LONGEST_TEXT = 10_000
MOST_VALUES = 1_000
RESERVED = {
    "scaling": "the scaling is declared by the definition's own key 'scaling'",
    "device": "the device is chosen on the command line, by --device",
}
THREADS = "threads"
"""The CPU threads of one process, as `trainkit.arguments` declares them for every program."""
DEVICES = "devices"
"""The devices of one process, for a program that takes several."""


def wrong_name(key: str) -> str | None:
    """Return what is wrong with the name of an arg, if anything."""
    if not re.fullmatch(NAME, key, re.ASCII):
        return f"arg '{key}' has to be a word of letters, digits, hyphens and underscores"
    return RESERVED.get(key)


def check_axis(document: Document, key: str, value: object, *place: str | int) -> None:
    """Refuse a name or a value that no command line can carry."""
    if wrong := wrong_name(key):
        document.fail(wrong, *place)
    if wrong := unfit(value):
        document.fail(f"arg '{key}' {wrong}", *place)


def check_arg(document: Document, key: str, value: object, *place: str | int) -> None:
    """Refuse what `check_axis` refuses; several values are a list."""
    if isinstance(value, list) and len(value) > MOST_VALUES:
        document.fail(f"arg '{key}' has {len(value):,} values; {MOST_VALUES:,} are the most", *place)
    for item in value if isinstance(value, list) else [value]:
        check_axis(document, key, item, *place)


def unfit(value: object) -> str | None:
    """Return what is wrong with a value of an arg, if anything."""
    if value is not None and not isinstance(value, str | int | float):
        return f"has to be a number, a text, true or false, not {shown(value)}"
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        return "is too large: a whole number has 63 bits at most; quote it to pass it on as text"
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return f"is too long: a text has {LONGEST_TEXT:,} characters at most"
    return None


VALUE: Node = {"type": ["string", "number", "boolean", "null"], "maxLength": LONGEST_TEXT, "check": check_axis}
NAMES: Node = {"pattern": f"^(?:{NAME})$", "not": {"enum": list(RESERVED)}}
"""The names of args and axes, for editors; the checks look at them with their values."""
ARGS: Node = {
    "description": "What every program is given, as --key value; true: --key; null and false: nothing; a list: each.",
    "type": ["object", "null"],
    "propertyNames": NAMES,
    "additionalProperties": {
        "type": [*VALUE["type"], "array"],
        "maxLength": LONGEST_TEXT,
        "items": VALUE,
        "maxItems": MOST_VALUES,
        "check": check_arg,
    },
}
PROGRAM_ARGS: Node = {
    "description": "What only one program of the matrix is given, on top of args.",
    "type": ["object", "null"],
    "additionalProperties": {
        **ARGS,
        "description": "The args of this program.",
        "type": "object",
        "meant": "a mapping of args to values",
    },
}
