"""Write rows as a csv, json, markdown or latex document.

Text from outside is escaped in each format, so that it cannot forge a row, start HTML, hide a link or run as a formula.
"""

import csv
import io
import re
from collections.abc import Sequence
from json import dumps
from typing import Any

import msgspec

from runner.core.text import one_line
from runner.report.columns import FIELDS, plain
from runner.report.rows import Block
from runner.report.table import Table, to_table, with_footnotes

FORMS = ("table", "markdown", "csv", "latex", "json")
_MARKDOWN = re.compile(r"[\\`|<*~]|\](?=[(\[:])|&(?=#|\w+;)")
_BEGINS_A_BLOCK = re.compile(r"(?=[#>+=-]|\d+[.)])")
# Spreadsheets read these as the beginning of a formula, including the wide forms of East Asian keyboards.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")  # noqa: RUF001 - the wide forms are meant
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
"""How to write special characters, letters that older fonts of TeX show as other letters, and signs of intervals."""
_TEX_LETTER = re.compile("[" + re.escape("".join(_TEX)) + "]|[-'?!](?=[-'`])")


def to_rows(blocks: list[Block]) -> list[dict[str, Any]]:
    """Return the rows as dicts for JSON. Scripts rely on the names of the keys."""
    return [plain(row) for block in blocks for row in block.rows]


def document(form: str, blocks: list[Block]) -> str:
    """Write blocks as a document in one of `FORMS`, except "table"."""
    if form == "json":
        return "[\n" + ",\n".join(map(json, to_rows(blocks))) + "\n]\n"
    if form == "csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: csv_cell(value) for key, value in row.items()} for row in to_rows(blocks))
        return text.getvalue()
    tables = map(to_table, blocks)
    if form == "markdown":
        return "\n".join(map(_markdown, tables))
    return "% These tables need \\usepackage{booktabs}.\n" + "\n".join(map(_latex, tables))


def _markdown(table: Table) -> str:
    parts = [f"### {markdown(table.title)}", ""]
    parts += [f"{markdown_line(line)}  " for line in table.common]
    parts += ["", *pipes(table.head, *table.lines), ""]
    if below := table.published.lines:
        parts += [markdown_line(table.published.title), "", *pipes(table.published.head, *below), ""]
    parts += [f"- {markdown_line(note)}" for note in table.notes] + ([""] if table.notes else [])
    return "\n".join(parts)


def _latex(table: Table) -> str:
    measured = with_footnotes(table)
    sentences = [latex(line) for line in table.common]
    sentences = [text if text.endswith((".", "?", "!")) else f"{text}." for text in sentences]
    what = " ".join([f"{latex(table.title)}:", *sentences])
    parts = ["\\begin{table}", "\\centering", f"\\caption{{{what}}}", *_tabular(measured.names, measured.lines)]
    if table.published.lines:
        parts += ["", "\\medskip", latex(table.published.title), "", "\\smallskip"]
        parts += _tabular(table.published.head, table.published.lines)
    if below := [*measured.footnotes, *table.notes]:
        parts += ["\\begin{flushleft}", "\\footnotesize", " \\\\\n".join(map(latex, below)), "\\end{flushleft}"]
    return "\n".join([*parts, "\\end{table}", ""])


def _tabular(head: list[str], lines: list[list[str]]) -> list[str]:
    rows = [" & ".join(map(latex, cells)) + " \\\\" for cells in (head, *lines)]
    begin = f"\\begin{{tabular}}{{{'l' * len(head)}}}"
    return [begin, "\\toprule", rows[0], "\\midrule", *rows[1:], "\\bottomrule", "\\end{tabular}"]


def pipes(head: Sequence[str], *lines: Sequence[str]) -> list[str]:
    """Return the lines of a Markdown table."""
    rows = [f"| {' | '.join(map(markdown, cells))} |" for cells in (head, *lines)]
    return [rows[0], "|" + " --- |" * len(head), *rows[1:]]


def markdown(text: str) -> str:
    """Escape Markdown in the text of a cell or a note."""
    return _MARKDOWN.sub(lambda found: f"\\{found[0]}", one_line(text))


def markdown_line(text: str) -> str:
    """Escape Markdown in a line of text. The escaped line cannot start a heading, list or rule."""
    line = markdown(text)
    return f"\\{line}" if _BEGINS_A_BLOCK.match(line) else line


def latex(text: str) -> str:
    """Escape text for TeX.

    Pairs such as `--` are separated, because older fonts join them into one letter. A leading `[` or `*` is put in
    braces, because TeX would read it as an argument of the preceding line break.
    """
    line = _TEX_LETTER.sub(lambda found: _TEX.get(found[0], f"{found[0]}{{}}"), one_line(text))
    return f"{{{line[0]}}}{line[1:]}" if line.startswith(("[", "*")) else line


def csv_cell(value: object) -> object:
    """Return the value of a CSV cell. Text that a spreadsheet would run as a formula gets a leading apostrophe."""
    if isinstance(value, dict | list | tuple):
        return json(value)
    if not isinstance(value, str):
        return str(value).lower() if isinstance(value, bool) else value
    line = one_line(value)
    return f"'{line}" if line.startswith(_FORMULA) else line


def json(value: object) -> str:
    r"""Encode a value as JSON. If it has unprintable characters, the JSON is pure ASCII, with escapes like `\uXXXX`."""
    text = msgspec.json.encode(value).decode()
    return text if text.isprintable() else dumps(msgspec.json.decode(text), separators=(",", ":"))
