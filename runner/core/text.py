"""Make text from outside printable and short enough for a screen or a table."""

from collections.abc import Iterable

LONGEST = 2_000
"""The most characters of one line. A longer text is cut."""
MOST_NAMED = 8
"""The most items of a list to name in a sentence. A longer list is cut, and its length is given."""


def one_line(text: object, most: int = LONGEST) -> str:
    r"""Fold any text into one printable line of at most `most` characters.

    Line breaks become spaces. Characters that could move the cursor, change colours or hide text (control characters,
    bidirectional marks, bytes that are not UTF-8) become escapes such as `\x1b`. Every text from a file, a network or
    another program passes through here before it is printed.
    """
    words = str(text)
    if words.isprintable() and len(words) <= most and "  " not in words and words == words.strip():
        return words
    return escaped(" ".join(words[: 4 * most].split()), most, cut=len(words) > 4 * most)


def escaped(line: str, most: int = LONGEST, *, cut: bool = False) -> str:
    """Escape a line's unprintable characters but keep its spaces, for example in a traceback."""
    line = line[: most + 1].expandtabs()
    if not line.isprintable():
        line = "".join(
            sign if sign.isprintable() else sign.encode("unicode_escape", "backslashreplace").decode() for sign in line
        )
    return f"{line[:most]}..." if cut or len(line) > most else line


def listed(items: Iterable[object], between: str = ", ", most: int = MOST_NAMED) -> str:
    """Join items. If there are more than `most`, name only the first ones and give the total."""
    words = [str(item) for item in items]
    return between.join(words if len(words) <= most else [*words[:most], f"... ({len(words):,} in all)"])


def shown(value: object, most: int = 100) -> str:
    """Return the repr of an untrusted value as one short line for use inside a message."""
    return one_line(repr(value), most)
