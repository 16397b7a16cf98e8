"""Text from outside, made fit for a screen or a table: printable, and of bounded length."""

from collections.abc import Iterable

LONGEST = 2_000
"""Characters of one line; a longer text is cut."""
MOST_NAMED = 8
"""Items that a list in a sentence names; of a longer one the number is given."""


def one_line(text: object, most: int = LONGEST) -> str:
    r"""Fold any text into one printable line of at most `most` characters.

    Line breaks become spaces. Whatever could move a terminal's cursor, change its colours or hide text (control
    characters, escape sequences, bidirectional marks, bytes that are not UTF-8) is shown as its escape, for example
    `\x1b`. Every text that was read from a file, a network or another program goes through here before it is printed.
    """
    words = str(text)
    if words.isprintable() and len(words) <= most and "  " not in words and words == words.strip():
        return words
    return escaped(" ".join(words[: 4 * most].split()), most, cut=len(words) > 4 * most)


def escaped(line: str, most: int = LONGEST, *, cut: bool = False) -> str:
    """Return a line with its spaces as they are, for example of a traceback; a character that hides is escaped."""
    line = line[: most + 1].expandtabs()
    if not line.isprintable():
        line = "".join(
            sign if sign.isprintable() else sign.encode("unicode_escape", "backslashreplace").decode() for sign in line
        )
    return f"{line[:most]}..." if cut or len(line) > most else line


def listed(items: Iterable[object], between: str = ", ", most: int = MOST_NAMED) -> str:
    """Join items; of more than `most`, name the first ones and say how many there are."""
    words = [str(item) for item in items]
    return between.join(words if len(words) <= most else [*words[:most], f"... ({len(words):,} in all)"])


def shown(value: object, most: int = 100) -> str:
    """Write a value from outside for a message that goes on after it."""
    return one_line(repr(value), most)
