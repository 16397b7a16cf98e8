"""Text from outside in LaTeX's own words: no name of an experiment can run a command or break the document."""

from runner.core.text import one_line

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "×": r"\texttimes{}",  # noqa: RUF001 - the sign itself
    "÷": r"\textdiv{}",
}
_FIRST_LETTER, _LAST_LETTER = "\u00c0", "\u00ff"


def tex(value: object) -> str:
    """Write a value as LaTeX text; a letter that its usual fonts lack becomes its number, for example [U+4E2D]."""
    text = "".join(_letter(letter) for letter in one_line(value))
    return text.replace("--", "-{}-").replace("--", "-{}-")  # two in an option of a command are no dash


def _letter(letter: str) -> str:
    if letter in _SPECIAL:
        return _SPECIAL[letter]
    known = letter.isascii() or _FIRST_LETTER <= letter <= _LAST_LETTER
    return letter if known else f"[U+{ord(letter):04X}]"
