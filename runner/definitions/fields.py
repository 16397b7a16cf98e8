"""The keys of a definition that hold one value: their type, pattern and bounds, for the checks and for the schema."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from runner.core.text import shown
from runner.core.values import is_number
from runner.core.yaml_reader import Document

WORD = r"[A-Za-z_][A-Za-z0-9_]*"
LONGEST_NAME = 100
LONGEST_LINE = 1_000
MOST_REPEATS = 1_000
MOST_SECONDS = 31_536_000
"""A year."""


@dataclass(frozen=True)
class Text:
    """A text of a form; `meant` says which. Without a default the key has to be there, unless it is optional."""

    about: str
    pattern: str = ""
    meant: str = ""
    default: str | None = None
    most: int = LONGEST_NAME
    optional: bool = False

    def read(self, document: Document, key: str) -> Any:
        """Return the value, or complain at its place."""
        if key not in document.values and self.optional:
            return None
        value = document.values.get(key, self.default)
        if value is None:
            document.fail(f"'{key}' is missing")
        if not isinstance(value, str) or not value.strip():
            document.fail(f"'{key}' has to be text, not {shown(value)}", key)
        if len(value) > self.most:
            document.fail(f"'{key}' has {len(value):,} characters; {self.most:,} are the most", key)
        if self.pattern and not re.fullmatch(self.pattern, value):
            document.fail(f"{key} '{value}' has to be {self.meant}", key)
        return value

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the value."""
        pattern = f"^(?:{self.pattern})$" if self.pattern else r"\S"
        default = {} if self.default is None else {"default": self.default}
        return {"description": self.about, "type": "string", "pattern": pattern, "maxLength": self.most, **default}


@dataclass(frozen=True)
class Choice:
    """One of a few words."""

    about: str
    choices: tuple[str, ...]
    default: str | None = None

    def read(self, document: Document, key: str) -> Any:
        """Return the value, or complain at its place."""
        value = document.values.get(key, self.default)
        if value is None:
            document.fail(f"'{key}' is missing: say {' or '.join(self.choices)}")
        if value not in self.choices:
            document.fail(f"{key} has to be {' or '.join(self.choices)}, not {shown(value)}", key)
        return value

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the value."""
        default = {} if self.default is None else {"default": self.default}
        return {"description": self.about, "enum": list(self.choices), **default}


@dataclass(frozen=True)
class Whole:
    """A whole number from 1 on."""

    about: str
    default: int
    most: int

    def read(self, document: Document, key: str) -> Any:
        """Return the value, or complain at its place."""
        value = document.values.get(key, self.default)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= self.most:
            document.fail(f"'{key}' has to be a whole number from 1 to {self.most}, not {shown(value)}", key)
        return value

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the value."""
        bounds = {"minimum": 1, "maximum": self.most, "default": self.default}
        return {"description": self.about, "type": "integer", **bounds}


@dataclass(frozen=True)
class Seconds:
    """A time above zero; without a default it may be left out."""

    about: str
    default: float | None
    most: float

    def read(self, document: Document, key: str) -> Any:
        """Return the value as a float, None if it is left out without a default, or complain at its place."""
        if key not in document.values and self.default is None:
            return None
        value = document.values.get(key, self.default)
        if not is_number(value) or not 0 < value <= self.most:
            meant = f"a number of seconds above 0, {self.most:,} at most"
            document.fail(f"'{key}' has to be {meant}, not {shown(value)}", key)
        return float(value)

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the value."""
        default = {} if self.default is None else {"default": self.default}
        return {"description": self.about, "type": "number", "exclusiveMinimum": 0, "maximum": self.most, **default}


Field = Text | Choice | Whole | Seconds
PROGRAM = Text(
    "<family>.<program>, a module below experiments/; or the path of a script, from the project's folder.",
    rf"{WORD}(\.{WORD})+|([^/\\\x00-\x1f]+/)*[^/\\\x00-\x1f]+\.py",
    "<family>.<program>, for example mnist.ddp, or the path of a script, for example path/to/train.py",
)
FIELDS: dict[str, Field] = {
    "name": Text(
        "The name of the file without .yaml.",
        "[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?",
        "lower-case letters, digits and hyphens, 40 at most",
    ),
    "summary": Text("The question that the experiment answers.", most=LONGEST_LINE),
    "program": PROGRAM,
    "launcher": Choice(
        "python for a program that starts the processes of its process group itself; its layout is 1x1.",
        ("torchrun", "python"),
        "torchrun",
    ),
    "data": Text(
        "The family whose prepare.py brings the data: runner prepare <family>.",
        WORD,
        "the name of a family, for example mnist",
        optional=True,
    ),
    "scaling": Choice("weak: batch_size is per process; strong: it is the global batch.", ("strong", "weak")),
    "measure": Text(
        "The time that is compared.",
        "[a-z][a-z0-9_]*_seconds",
        "a time in seconds, for example train_seconds",
        "train_seconds",
    ),
    "repeat": Whole("How many times each cell is run.", 3, MOST_REPEATS),
    "timeout_seconds": Seconds("When a run is ended.", 1800, MOST_SECONDS),
    "patience_seconds": Seconds(
        "When a run is ended of which no rank has reported anything for so long; by default it goes on.",
        None,
        MOST_SECONDS,
    ),
}
