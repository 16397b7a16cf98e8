"""Rows of words: in columns on a terminal, with a tab between them into a pipe."""

from __future__ import annotations

import sys

from runner.cli.lines import show_document
from runner.core.text import one_line


def show_rows(rows: list[tuple[str, ...]]) -> None:
    """Print rows of words on stdout."""
    cells = [tuple(one_line(word) for word in row) for row in rows]
    if sys.stdout.isatty():
        from runner.cli.terminal import print_columns

        print_columns(cells)
        return
    for row in cells:
        show_document("\t".join(row).rstrip() + "\n")
