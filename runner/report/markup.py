"""Text from outside in each format's own words: none can forge a row, start HTML, hide a link or run as a formula."""

import re

import msgspec

from runner.core.text import one_line

_MARKDOWN = re.compile(r"[\\`|<*~]|\](?=[(\[:])|&(?=#|\w+;)")
_BEGINS_A_BLOCK = re.compile(r"(?=[#>+=-]|\d+[.)])")
# What spreadsheets take for the beginning of a formula, the wide forms of East Asian keyboards included.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")  # noqa: RUF001 - these are meant
_TEX = {
    **{letter: f"\\{letter}" for letter in "{}$&#%_"},
    "\\": "\\textbackslash{}",
    "^": "\\textasciicircum{}",
    "~": "\\textasciitilde{}",
    "`": "\\textasciigrave{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "|": "\\textbar{}",
    '"': "{''}",
    "±": "$\\pm$",
    "÷": "$\\div$",
}
"""What TeX takes for commands, what its older fonts show as other letters, and the signs of an interval."""
_TEX_LETTER = re.compile("[" + re.escape("".join(_TEX)) + "]|[-'?!](?=[-'`])")
_NOT_ASCII = re.compile(r"[^ -~]")
_encode = msgspec.json.Encoder().encode


def markdown(text: str) -> str:
    """Escape what Markdown would take for markup in a cell or a note; plain words stay as they are."""
    return _MARKDOWN.sub(lambda found: f"\\{found[0]}", one_line(text))


def markdown_line(text: str) -> str:
    """Escape a line that stands alone, so that it begins no heading, list or rule."""
    line = markdown(text)
    return f"\\{line}" if _BEGINS_A_BLOCK.match(line) else line


def latex(text: str) -> str:
    """Escape all that TeX would not print as it is.

    Two letters that older fonts join into another, for example `--`, stay two. No text begins with `[` or `*`, which
    would belong to the end of the line before it.
    """
    line = _TEX_LETTER.sub(lambda found: _TEX.get(found[0], f"{found[0]}{{}}"), one_line(text))
    return f"{{{line[0]}}}{line[1:]}" if line.startswith(("[", "*")) else line


def csv_cell(value: object) -> object:
    """Return a cell of a CSV file: numbers stay numbers, and a text that a spreadsheet would run is quoted."""
    if isinstance(value, dict | list | tuple):
        return json(value)
    if not isinstance(value, str):
        return str(value).lower() if isinstance(value, bool) else value
    line = one_line(value)
    return f"'{line}" if line.startswith(_FORMULA) else line


def json(value: object) -> str:
    r"""Encode JSON; a character that a terminal would not show is written as `\uXXXX`, which means the same."""
    text = _encode(value).decode()
    if text.isprintable():
        return text

    def shown(letter: re.Match[str]) -> str:
        units = letter[0].encode("utf-16-be").hex()
        return letter[0] if letter[0].isprintable() else re.sub("....", r"\\u\g<0>", units)

    return _NOT_ASCII.sub(shown, text)
