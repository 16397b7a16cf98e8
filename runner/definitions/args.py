"""Check the names and values of args, the command-line arguments of programs."""

import re
from typing import Annotated

import msgspec

from runner.core.values import LARGEST_WHOLE
from runner.definitions.environment import is_variable

REST = "--"
"""The arg whose values a program gets unchanged and without a name."""
NAME = rf"(?:\+\+?|~)?[A-Za-z][\w-]*(?:[./@][\w-]+)*=?|--?[A-Za-z][\w.-]*|{REST}"
"""The name of an arg in the program's spelling, such as Hydra's `optimizer.lr=`."""
RESERVED = {
    "scaling": "'scaling' cannot be an arg: it is a key of the definition",
    "device": "'device' cannot be an arg: choose it on the command line, by --device",
}
THREADS = "threads"
"""The arg that sets the CPU threads of a process. `trainkit.arguments` declares the arg for every program."""
DEVICES = "devices"
"""The arg that sets the number of devices of a process, for programs that use several."""
Whole = Annotated[int, msgspec.Meta(ge=-LARGEST_WHOLE, le=LARGEST_WHOLE, title="a whole number of 63 bits, or a text")]
Value = str | Whole | float | bool | None


def wrong_name(key: str) -> str | None:
    """Return why an arg cannot have this name, or None if it can."""
    if is_variable(key):
        return f"'{key}' is an environment variable: it stands below 'env', or in --env NAME=VALUE"
    if not re.fullmatch(NAME, key, re.ASCII):
        return f"arg '{key}' has to be a word of letters, digits, hyphens and underscores"
    return RESERVED.get(key)


def unfit(value: object) -> str | None:
    """Return why an arg cannot have this value, or None if it can."""
    try:
        msgspec.convert(value, Value)
    except msgspec.ValidationError as error:
        return f"invalid value: {error}"
    return None
