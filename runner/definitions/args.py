"""Args: the words that a program is started with, and which names and values they may have."""

import re
from typing import Annotated

import msgspec

from runner.core.values import LARGEST_WHOLE

REST = "--"
"""The arg whose values are words as they stand, without a name before them."""
NAME = rf"(?:\+\+?|~)?[A-Za-z][\w-]*(?:[./@][\w-]+)*=?|--?[A-Za-z][\w.-]*|{REST}"
"""A name as the program spells it, with dots as Hydra's `optimizer.lr=`, or with its hyphens."""
RESERVED = {
    "scaling": "the scaling is declared by the definition's own key 'scaling'",
    "device": "the device is chosen on the command line, by --device",
}
THREADS = "threads"
"""The CPU threads of one process, as `trainkit.arguments` declares them for every program."""
DEVICES = "devices"
"""The devices of one process, for a program that takes several."""
Whole = Annotated[int, msgspec.Meta(ge=-LARGEST_WHOLE, le=LARGEST_WHOLE, title="a whole number of 63 bits, or a text")]
Value = str | Whole | float | bool | None


def wrong_name(key: str) -> str | None:
    """Return what is wrong with the name of an arg, if anything."""
    if not re.fullmatch(NAME, key, re.ASCII):
        return f"arg '{key}' has to be a word of letters, digits, hyphens and underscores"
    return RESERVED.get(key)


def unfit(value: object) -> str | None:
    """Return what is wrong with a value of an arg, if anything."""
    try:
        msgspec.convert(value, Value)
    except msgspec.ValidationError as error:
        return f"is unfit: {error}"
    return None
