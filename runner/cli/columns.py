"""Rows of words: in columns on a terminal, with a tab between them into a pipe."""

import sys

from runner.cli.lines import show_document
from runner.core.text import one_line


def show_rows(rows: list[tuple[str, ...]]) -> None:
    """Print rows of words on stdout."""
    if sys.stdout.isatty():
        from runner.cli.terminal import print_columns

        print_columns(rows)
        return
    for row in rows:
        show_document("\t".join(map(one_line, row)).rstrip() + "\n")
