"""A definition, checked: what an experiment is, and the keys that say so."""

import hashlib
import itertools
import json
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from runner.core.values import spell_non_finite
from runner.definitions import program as programs
from runner.definitions.args import ARGS, PROGRAM_ARGS
from runner.definitions.axes import BASELINE, MATRIX, PROGRAM, WORD
from runner.definitions.dialects import DIALECT, METRICS
from runner.definitions.keys import LONGEST_LINE, Node, choice, plain, seconds, text
from runner.definitions.published import PUBLISHED
from runner.definitions.settings import Settings
from runner.definitions.skips import SKIP, Skip, finder

REQUIRED = ("name", "summary", "program", "matrix")
SCALINGS = ("strong", "weak")
MOST_REPEATS = 1_000
NAME = text(
    "The name of the file without .yaml.",
    "[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?",
    "lower-case letters, digits and hyphens, 40 at most",
)
_LATER: dict[str, Any] = {"launcher": "torchrun", "data": None, "dialect": {}, "metrics": {}, "patience_seconds": None}
"""Keys that definitions did not always have: with these values they are left out, so that hashes stay as they were."""


@dataclass(frozen=True)
class Experiment:
    """A definition, checked: `matrix` always has the axis `layout`, its values in canonical form.

    A field with metadata is a key of the definition. The metadata is its schema: `runner.definitions.keys`.
    """

    name: str = field(metadata=NAME)
    summary: str = field(metadata=text("The question that the experiment answers.", most=LONGEST_LINE))
    program: str = field(metadata=PROGRAM)
    launcher: str = field(
        metadata=choice(
            "python for a program that starts the processes of its process group itself; its layout is 1x1.",
            ("torchrun", "python"),
            default="torchrun",
        )
    )
    data: str | None = field(
        metadata=text(
            "The family whose prepare.py brings the data: runner prepare <family>.",
            WORD,
            "the name of a family, for example mnist",
        )
    )
    dialect: dict[str, str] = field(metadata=DIALECT)
    """The names of the dialects that read its stdout, with the text of those that are files of the project."""
    metrics: dict[str, dict[str, str]] = field(metadata=METRICS)
    """The pattern of each figure that is read beside, and `best` where that is kept too."""
    args: dict[str, Any] = field(metadata=ARGS)
    program_args: dict[str, dict[str, Any]] = field(metadata=PROGRAM_ARGS)
    scaling: str | None = field(
        metadata=choice(
            "weak: batch_size is per process; strong: it is the global batch; without it nothing is said of speed-ups,"
            " unless the program counts its samples.",
            SCALINGS,
        )
    )
    matrix: dict[str, list[Any]] = field(metadata=MATRIX)
    skip: tuple[Skip, ...] = field(metadata=SKIP)
    baseline: dict[str, Any] = field(metadata=BASELINE)
    measure: str = field(
        metadata=text(
            "The time that is compared.",
            "[a-z][a-z0-9_]*_seconds",
            "a time in seconds, for example train_seconds",
            default="train_seconds",
        )
    )
    repeat: int = field(
        metadata={
            "description": "How many times each cell is run.",
            "type": "integer",
            "minimum": 1,
            "maximum": MOST_REPEATS,
            "default": 3,
            "meant": f"a whole number from 1 to {MOST_REPEATS}",
        }
    )
    timeout_seconds: float = field(metadata=seconds("When a run is ended.", default=1800))
    patience_seconds: float | None = field(
        metadata=seconds(
            "When a run is ended of which no rank has reported anything for so long; by default it goes on."
        )
    )
    published: dict[str, Any] | None = field(metadata=PUBLISHED)
    path: Path
    root: Path
    settings: Settings

    def resolved(self) -> dict[str, Any]:
        """Return the definition as plain JSON values with its defaults filled in, for the record.

        NaN and infinity, which JSON lacks, are the words that the program's command line has for them.
        """
        values = {key: getattr(self, key) for key in KEYS} | {"skip": [skip.plain() for skip in self.skip]}
        resolved: dict[str, Any] = spell_non_finite(values)
        return {key: value for key, value in resolved.items() if key not in _LATER or value != _LATER[key]}

    def cells(
        self, device: str | None = None, layouts: list[str] | None = None
    ) -> list[tuple[dict[str, Any], Skip | None]]:
        """Return every point of the matrix, or of other layouts, and the skip that leaves it out on this device."""
        matrix = {**self.matrix, "layout": layouts or self.matrix["layout"]}
        points = [dict(zip(matrix, values, strict=True)) for values in itertools.product(*matrix.values())]
        find_skip = finder(self.skip, device)
        return [(point, find_skip(point)) for point in points]

    def sha256(self) -> str:
        """Hash the resolved definition."""
        return hash_resolved(self.resolved())

    def programs(self) -> dict[str, programs.Program]:
        """Find the program of every cell, by name."""
        names = [self.program, *self.matrix.get("program", [])]
        found = {name: programs.find(self.root, name, self.settings) for name in names}
        return {name: replace(program, alone=self.launcher == "python") for name, program in found.items()}


NODES: dict[str, Node] = {key.name: key.metadata for key in fields(Experiment) if key.metadata}
KEYS = tuple(NODES)
ROOT: Node = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "An experiment of distributed-experiment-kit",
    "type": "object",
    "required": list(REQUIRED),
    "additionalProperties": False,
    "properties": NODES,
    "says": {"type": f"a definition is a mapping with the keys {', '.join(KEYS)}"},
}


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a definition, for editors.

    What it accepts may still be refused: only `load` knows that programs exist and take the args, and that rows name
    cells.
    """
    return plain(ROOT)  # type: ignore[no-any-return]


def hash_resolved(resolved: dict[str, Any]) -> str:
    """Hash a resolved definition, as a record has it."""
    written = json.dumps(resolved, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()
