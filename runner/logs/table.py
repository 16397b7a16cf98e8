"""Tables of a training: a line of heads, and below it lines of numbers.

epoch  train_loss  valid_loss  accuracy        | Epoch | Train Loss | Val Acc |        step,loss
0      0.412       0.391       0.871           | 1     | 0.412      | 0.871   |        10,2.31
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from runner.logs import general

_MOST_COLUMNS = 30
_SPLITS = (
    re.compile(r"\s*[|│┃┆]\s*"),
    re.compile(r"\t\s*"),
    re.compile(r"\s*,\s*"),
    re.compile(r"\s{2,}"),
    re.compile(r"\s+"),
)
_NUMBER = re.compile(r"[-+]?(?:\d{1,18}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][-+]?\d{1,4})?(%?)")
_MOST_OTHERS = 3
"""Lines between two rows that are none, for example the line below the heads."""


@dataclass
class Table:
    """The heads of a table, and how its lines are split."""

    names: tuple[str, ...]
    """The field of each column; empty where it is not known."""
    split: re.Pattern[str]
    _others: int = 0

    @staticmethod
    def of_header(text: str) -> Table | None:
        """Return the table that a line of heads begins; None if it is none."""
        if re.search(r"(?<![A-Za-z@_-])\d", text) or "oss" not in text.lower() or len(text) > general.LONGEST:
            return None
        for split in _SPLITS:
            heads = _cells(text, split)
            if 1 < len(heads) <= _MOST_COLUMNS and (names := _names(heads)):
                return Table(names, split)
        return None

    def fields(self, text: str) -> dict[str, Any]:
        """Return what a row says; nothing if the line is no row."""
        cells = _cells(text, self.split)
        if len(cells) != len(self.names):
            return {}
        found: dict[str, Any] = {}
        for name, cell in zip(self.names, cells, strict=True):
            number = _NUMBER.fullmatch(cell) if name else None
            if number and (name not in ("epoch", "step") or cell.isdigit()):
                found[name] = int(cell) if name in ("epoch", "step") else float(cell.rstrip("%"))
        if not found.keys() & {"epoch", "step"} or len(found) < 2:  # noqa: PLR2004
            return {}
        self._others = 0
        return found

    def goes_on(self) -> bool:
        """Return whether another row may follow on a line that is none."""
        self._others += 1
        return self._others <= _MOST_OTHERS


def _cells(text: str, split: re.Pattern[str]) -> list[str]:
    return split.split(text.strip().strip("|│┃┆").strip())


def _names(heads: list[str]) -> tuple[str, ...]:
    """Return the fields of some heads; nothing if they are not those of a training."""
    kinds = [general.kind_of_name(head) for head in heads]
    has_data = any(of == general.EVAL for _, of in kinds)
    names = []
    for kind, of in kinds:
        if kind == "loss":
            names.append("val_loss" if of == general.EVAL else "train_loss")
        elif kind in ("epoch", "step"):
            names.append(kind)
        else:
            names.append(kind if of == general.EVAL or (of is None and has_data and kind in _BARE) else "")
    known = [name for name in names if name]
    is_one = len(known) == len(set(known)) and known[:1] in (["epoch"], ["step"]) and len(known) > 1
    return tuple(names) if is_one else ()


_BARE = ("accuracy", "f1", "auc", "perplexity", "bleu")
