"""Args: what the program is started with. Which names and values they may have."""

import re
import shlex

from runner.core.text import shown
from runner.core.values import LARGEST_WHOLE
from runner.core.yaml_reader import Document
from runner.core.yaml_writer import to_yaml
from runner.definitions.keys import Node
from runner.definitions.options.option import spell

NAME = r"(?:\+\+?|~)?[A-Za-z][A-Za-z0-9_]*(?:[./@][A-Za-z0-9_]+)*|--?[A-Za-z][A-Za-z0-9_-]*"
"""Of nested settings, as Hydra's `optimizer.lr`, and of what Hydra adds or takes away; or a flag as it is typed."""
LONGEST_TEXT = 10_000
LONGEST_HINT = 200
RESERVED = {
    "scaling": "the scaling is declared by the definition's own key 'scaling'",
    "device": "the device is chosen on the command line, by --device",
}
THREADS = "threads"
"""The CPU threads of one process, as `trainkit.arguments` declares them for every program."""
DEVICES = "devices"
"""The devices of one process, for a program that takes several."""


def check_arg(document: Document, key: str, value: object, *place: str | int) -> None:
    """Refuse a name or a value that no command line can carry."""
    if not re.fullmatch(NAME, key):
        document.fail(f"arg '{key}' has to be a word of letters, digits and underscores", *place)
    if key in RESERVED:
        document.fail(RESERVED[key], *place)
    if wrong := unfit(value):
        document.fail(f"arg '{key}' {wrong}{_as_text(key, value)}", *place)


def _as_text(key: str, value: object) -> str:
    """Return how a list of values is written: as one text, in the way of the library that reads it."""
    if not isinstance(value, list) or len(value) > LONGEST_HINT or None in value or any(map(unfit, value)):
        return ""
    words, items = to_yaml({key: shlex.join(map(spell, value))}), to_yaml({key: f"[{', '.join(map(spell, value))}]"})
    hint = f"{words.rstrip()} (for Hydra, OmegaConf and Fire {items.rstrip()})"
    is_short = len(value) > 1 and len(hint) <= LONGEST_HINT and "\n" not in hint
    return f"; several values are one text: {hint}" if is_short else ""


def unfit(value: object) -> str | None:
    """Return what is wrong with the value of an arg, if anything."""
    if value is not None and not isinstance(value, str | int | float):
        return f"has to be a number, a text, true or false, not {shown(value)}"
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        return "is too large: a whole number has 63 bits at most; quote it to pass it on as text"
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return f"is too long: a text has {LONGEST_TEXT:,} characters at most"
    return None


VALUE: Node = {"type": ["string", "number", "boolean", "null"], "maxLength": LONGEST_TEXT, "check": check_arg}
NAMES: Node = {"pattern": f"^(?:{NAME})$", "not": {"enum": list(RESERVED)}}
"""The names of args and axes, for editors; `check_arg` looks at them with their values."""
ARGS: Node = {
    "description": "What every program is given; each becomes --key value. null: the program's own default.",
    "type": ["object", "null"],
    "propertyNames": NAMES,
    "additionalProperties": VALUE,
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
