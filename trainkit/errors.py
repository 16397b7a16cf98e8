"""What a program refuses to do, and how it says so in one line."""

LONGEST = 2_000
"""Characters of one line; a longer text is cut."""
REFUSED = 2
"""The exit code of a refusal."""


class Refusal(Exception):  # noqa: N818 - the program works; it says no
    """What was asked for cannot be done; `line` is the text for the screen."""

    @property
    def line(self) -> str:
        """The text in one printable line."""
        return one_line(self)


def one_line(text: object) -> str:
    """Fold any text into one line that cannot move a terminal's cursor: other letters are shown as escapes."""
    folded = " ".join(str(text)[: 4 * LONGEST].split())
    shown = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "backslashreplace").decode()
        for letter in folded
    )
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}..."


def reason(error: BaseException) -> str:
    """Return why something failed: of the system's errors what it says, of the others their text or their kind."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return one_line(error) or type(error).__name__
