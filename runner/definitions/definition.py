"""A definition, checked: what an experiment is."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from runner.definitions import program as programs
from runner.definitions.settings import Settings
from runner.definitions.skips import Skip, finder


@dataclass(frozen=True)
class Experiment:
    """A definition, checked: `matrix` always has the axis `layout`, its values in canonical form."""

    name: str
    summary: str
    program: str
    dialects: dict[str, str]
    """How its stdout is read if it knows nothing of the kit: names of dialects, with the text of those of one's own."""
    launcher: str
    """`torchrun`, or `python` for a program that starts its processes itself."""
    data: str | None
    args: dict[str, Any]
    program_args: dict[str, dict[str, Any]]
    scaling: str
    matrix: dict[str, list[Any]]
    skip: tuple[Skip, ...]
    baseline: dict[str, Any]
    measure: str
    repeat: int
    timeout_seconds: float
    patience_seconds: float | None
    published: dict[str, Any] | None
    path: Path
    root: Path
    settings: Settings

    def resolved(self) -> dict[str, Any]:
        """Return the definition as plain JSON values with its defaults filled in, for the record.

        NaN and infinity, which JSON lacks, are the words that the program's command line has for them.
        """
        resolved = {
            "name": self.name,
            "summary": self.summary,
            "program": self.program,
            **({"launcher": self.launcher} if self.launcher != "torchrun" else {}),
            **({"data": self.data} if self.data else {}),
            **({"dialect": self.dialects} if self.dialects else {}),
            "args": self.args,
            "program_args": self.program_args,
            "scaling": self.scaling,
            "matrix": self.matrix,
            "skip": [skip.plain() for skip in self.skip],
            "baseline": self.baseline,
            "measure": self.measure,
            "repeat": self.repeat,
            "timeout_seconds": self.timeout_seconds,
            **({"patience_seconds": self.patience_seconds} if self.patience_seconds else {}),
            "published": self.published,
        }
        return {key: _plain(value) for key, value in resolved.items()}

    def cells(
        self, device: str | None = None, layouts: list[str] | None = None
    ) -> list[tuple[dict[str, Any], Skip | None]]:
        """Return every point of the matrix, and the skip that leaves it out, if one does on this device.

        Other layouts may stand in for the matrix's own.
        """
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
        return {name: replace(one, alone=self.launcher == "python") for name, one in found.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def hash_resolved(resolved: dict[str, Any]) -> str:
    """Hash a resolved definition, as a record has it."""
    text = json.dumps(resolved, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
