"""Print text that cannot move the cursor, change colours, or forge a line."""

from contextlib import suppress

import typer

from runner.core.text import escaped, one_line

LONGEST = 20_000
"""The most characters in a line of a document, such as a command in a launch spec."""


def say(text: object) -> None:
    """Print one line for the user on stderr. A failure to write is ignored."""
    with suppress(OSError):
        typer.echo(line(text), err=True)


def show(text: object) -> None:
    """Print one line of the result on stdout."""
    typer.echo(line(text))


def show_document(text: str) -> None:
    """Print a result of several lines unchanged, except for characters that hide text or move the cursor."""
    if not text.replace("\n", "").replace("\t", "").isprintable():
        rows = [row.split("\t") for row in text.split("\n")]
        text = "\n".join("\t".join(escaped(cell, LONGEST) for cell in row) for row in rows)
    typer.echo(text, nl=False)


def line(text: object) -> str:
    """Fold text into one printable line, but keep double spaces, which separate the parts of a message."""
    return "  ".join(one_line(part) for part in str(text)[:LONGEST].split("  "))
