"""The formats of the summary: what stands before, between and behind the texts of its blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

FIELDS = (
    *("experiment", "target", "layout", "axes", "n", "seconds", "seconds_low", "seconds_high"),
    *("speedup", "speedup_low", "speedup_high", "efficiency", "accuracy", "claimed"),
    *("not_complete", "processes", "best_accuracy", "serial_fraction", "hardware", "program", "args", "scaling"),
    *("measure", "points", "published", "started_by_hand", "load", "sources", "mfu", "limited_by"),
)
"""The fields of a row in csv and json; their names and order are a promise."""


class Form(NamedTuple):
    """One format."""

    before: str = ""
    between: str = ""
    behind: str = ""

    def document(self, texts: Iterable[str]) -> Iterator[str]:
        """Yield the parts of the whole document."""
        yield self.before
        for number, text in enumerate(texts):
            yield self.between + text if number else text
        yield self.behind


FORMS = {
    "table": Form(),
    "markdown": Form(between="\n"),
    "csv": Form(before=",".join(FIELDS) + "\n"),
    "latex": Form(before="% These tables need \\usepackage{booktabs}.\n", between="\n"),
    "json": Form("[\n", ",\n", "\n]\n"),
}
"""A text of `table` is that of a `Table`, from which the terminal draws it."""
