"""Refusals of programs, and their form: one line."""

LONGEST = 2_000
"""Maximum characters of a line; longer text is cut."""
REFUSED = 2
"""Exit code of a refusal."""


class Refusal(Exception):  # noqa: N818 - the program works correctly and declines
    """A request that cannot be carried out; `line` is the message for the screen."""

    @property
    def line(self) -> str:
        """The message in one printable line."""
        return one_line(self)


def one_line(text: object) -> str:
    """Return any text in one line that cannot move a terminal's cursor; unprintable characters become escapes."""
    folded = " ".join(str(text)[: 4 * LONGEST].split())
    shown = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "backslashreplace").decode()
        for letter in folded
    )
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}..."


def reason(error: BaseException) -> str:
    """Return an error's message: the system's for OSError, else the error's text, or its type without a text."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return one_line(error) or type(error).__name__
