"""A file of any of the formats as one page."""

import csv
import io
import re
from pathlib import Path
from typing import BinaryIO

from runner.core.errors import RequestError, reason_of
from runner.core.text import one_line, shown
from runner.tools.audit.tables import MOST_BYTES, MOST_CELLS, MOST_COLUMNS, MOST_LINES, Cell, Page, Table, make_table
from trainkit import files

LOOKED_AT = 65_536
"""Characters by which a format is guessed."""
_MARKDOWN = re.compile(r"(?m)^[ \t>|]*:?-+:?[ \t]*\|[ \t\r:|-]*$|^#{1,6} \S|<table\b|^```")
FORMATS = ("markdown", "csv", "html", "yaml")
_SUFFIXES = {
    **dict.fromkeys((".md", ".markdown", ".mdown", ".rst", ".txt"), "markdown"),
    **dict.fromkeys((".csv", ".tsv"), "csv"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    **dict.fromkeys((".yaml", ".yml"), "yaml"),
}


def read_page(path: Path, stdin: BinaryIO | None = None, format_: str = "") -> Page:
    """Read a file, or standard input for `-`.

    Raises:
        RequestError: it cannot be read, is too large, is no text or of no known format.
    """
    name = one_line(path)
    try:
        raw = stdin.read(MOST_BYTES + 1) if stdin and str(path) == "-" else files.read_file(path, MOST_BYTES)
    except (OSError, ValueError) as error:
        raise RequestError(f"{name}: cannot be read: {reason_of(error)}") from None
    if len(raw) > MOST_BYTES:
        raise RequestError(f"{name}: more than {MOST_BYTES:,} bytes; give the part with the tables")
    text = _decode(raw, name)
    lines = text.count("\n")
    if lines > MOST_LINES:
        raise RequestError(f"{name}: {lines:,} lines; {MOST_LINES:,} are the most: give the part with the tables")
    page = read_text(text, name, format_ or _SUFFIXES.get(path.suffix.lower(), "") or guess(text))
    cells = sum(len(table.headings) * (len(table.rows) + 1) for table in page.tables)
    if cells > MOST_CELLS:
        raise RequestError(f"{name}: {cells:,} cells; {MOST_CELLS:,} are the most: give the part with the tables")
    return page


def read_text(text: str, name: str, format_: str) -> Page:
    """Read text of a format; RequestError for a format that is not known."""
    if format_ == "markdown":
        from runner.tools.audit.markdown import read_markdown

        return read_markdown(text, name)
    if format_ == "html":
        from runner.tools.audit.html import read_html

        return read_html(text, name)
    if format_ == "csv":
        return read_csv(text, name)
    if format_ == "yaml":
        from runner.tools.audit.published import read_published

        return read_published(text, name)
    raise RequestError(f"format {shown(format_)}: there is {', '.join(FORMATS)}")


def _decode(raw: bytes, name: str) -> str:
    encoding = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        raise RequestError(f"{name}:{raw[: error.start].count(10) + 1}: not UTF-8; save the file as UTF-8") from None
    if "\0" in text:
        raise RequestError(f"{name}: this is no text")
    return text


def guess(text: str) -> str:
    """Guess the format of text without a name, by its beginning."""
    text = text[:LOOKED_AT]
    if re.match(r"\s*<(?:!doctype|html|table|div|body|p\b|h\d)", text, re.IGNORECASE):
        return "html"
    if re.search(r"(?m)^published:", text):
        return "yaml"
    if _MARKDOWN.search(text):
        return "markdown"
    first = [line for line in text.splitlines() if line.strip()][:2]
    alike = [mark for mark in ",;\t" if len(first) > 1 and first[0].count(mark) == first[1].count(mark) > 0]
    return "csv" if alike else "markdown"


def read_csv(text: str, name: str) -> Page:
    """Read tables of a CSV file, apart by empty lines; the character that separates cells is found by counting."""
    tables: list[Table] = []
    block: list[tuple[int, str]] = []
    quoted = False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if (line.strip(" ,;\t") or quoted) and not (line.startswith("#") and not quoted and not block):
            block.append((number, line))
            quoted ^= line.count('"') % 2 == 1
        elif block:
            tables += _block(block, name)
            block = []
    tables += _block(block, name) if block else []
    return Page(name, tables)


def _block(lines: list[tuple[int, str]], name: str) -> list[Table]:
    mark = _separator([line for _, line in lines[:20]])
    reader = csv.reader(io.StringIO("\n".join(line for _, line in lines)), delimiter=mark, skipinitialspace=True)
    rows: list[list[Cell]] = []
    before = 0
    try:
        for row in reader:
            if len(row) > MOST_COLUMNS:
                raise RequestError(f"{name}:{lines[before][0]}: {len(row):,} columns; {MOST_COLUMNS} are the most")
            rows.append([Cell(" ".join(cell.split()), lines[before][0]) for cell in row])
            before = min(reader.line_num, len(lines) - 1)
    except csv.Error as error:
        raise RequestError(f"{name}:{lines[before][0]}: not CSV: {one_line(error)}") from None
    heads = 1
    while heads < len(rows) and len(rows[heads - 1]) == 1 < len(rows[heads]):  # a title above the headings
        rows, heads = rows[1:], 1
    table = make_table(rows, heads, comma=mark == ";")
    return [table] if table else []


def _separator(lines: list[str]) -> str:
    """Return the character that stands in all lines, outside of quotes, most often the same number of times."""
    bare = [re.sub(r'"[^"]*"', "", line) for line in lines]
    scores = {}
    for mark in "\t;,|":
        counts = [line.count(mark) for line in bare]
        usual = max(set(counts) - {0}, key=counts.count, default=0)
        scores[mark] = counts.count(usual) / len(counts) if usual else 0.0
    return max(scores, key=lambda mark: scores[mark])
