"""A file of any of the formats as one page."""

import csv
import io
import re
from pathlib import Path
from typing import BinaryIO

from runner.core import yaml_reader
from runner.core.errors import RequestError, reason_of
from runner.core.text import one_line
from runner.tools.audit.html import read_html
from runner.tools.audit.markdown import read_markdown
from runner.tools.audit.tables import MOST_BYTES, MOST_CELLS, MOST_COLUMNS, MOST_LINES, Cell, Page, Table, make_table
from trainkit import files

LOOKED_AT = 65_536
"""Characters by which a format is guessed."""
_MARKDOWN = re.compile(r"(?m)^[ \t>|]*:?-+:?[ \t]*\|[ \t\r:|-]*$|^#{1,6} \S|<table\b|^```")
_LONGEST_VALUE = 200
"""Characters of a value of a definition."""
_SUFFIXES = dict.fromkeys((".md", ".markdown", ".mdown", ".rst", ".txt"), "markdown")
_SUFFIXES |= dict.fromkeys((".csv", ".tsv"), "csv")
_SUFFIXES |= dict.fromkeys((".html", ".htm", ".xhtml"), "html")
_SUFFIXES |= dict.fromkeys((".yaml", ".yml"), "yaml")


def read_page(path: Path, stdin: BinaryIO | None = None, format_: str = "") -> Page:
    """Read a file, or standard input for `-`.

    Raises:
        RequestError: it cannot be read, is too large or is no text.
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
    page = FORMATS[format_ or _SUFFIXES.get(path.suffix.lower()) or guess(text)](text, name)
    cells = sum(len(table.headings) * (len(table.rows) + 1) for table in page.tables)
    if cells > MOST_CELLS:
        raise RequestError(f"{name}: {cells:,} cells; {MOST_CELLS:,} are the most: give the part with the tables")
    return page


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
    while len(rows) > 1 and len(rows[0]) == 1 < len(rows[1]):  # a title above the headings
        rows = rows[1:]
    table = make_table(rows, comma=mark == ";")
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


def read_published(text: str, name: str) -> Page:
    """Read `published: {rows: [...]}` of a definition; a key becomes a column, but one with lists, a curve, does not.

    Raises:
        RequestError: it is no YAML or has no published rows, with file:line.
    """
    document = yaml_reader.parse(text, name)
    values = document.values if isinstance(document.values, dict) else {}
    published = values.get("published")
    if not isinstance(published, dict):
        document.fail("no 'published:' block with 'source' and 'rows'; only published figures are audited")
    rows = published.get("rows")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        document.fail("'published' needs 'rows': a list of mappings", "published", "rows")
    names = list(dict.fromkeys(str(key) for row in rows for key, value in row.items() if not isinstance(value, list)))
    if len(names) > MOST_COLUMNS:
        document.fail(f"{len(names):,} keys; {MOST_COLUMNS} are the most", "published", "rows")
    lines = text.splitlines()
    first = document.lines.get(("published", "rows"), 1)
    table = [[Cell(one_line(key, _LONGEST_VALUE), first) for key in names]]
    for index, row in enumerate(rows):
        here = document.lines.get(("published", "rows", index), first)
        cells = []
        for key in names:
            line = document.lines.get(("published", "rows", index, key), here)
            cells.append(Cell(_printed(key, row.get(key), lines[line - 1 : line + 1]), line))
        table.append(cells)
    near = " ".join(str(row.get("note", ""))[:_LONGEST_VALUE] for row in rows)
    made = make_table(table, 1, near)
    return Page(name, [made] if made else [])


def _printed(key: str, value: object, lines: list[str]) -> str:
    """Return a number with the zeros that it has in the file, which YAML drops."""
    if value is None or isinstance(value, list | dict):
        return ""
    if isinstance(value, float):
        for line in lines:
            for piece in line.split(f"{key}:")[1:]:
                word = piece.strip().split(",")[0].split("}")[0].split("#")[0].strip()
                try:
                    if float(word) == value:
                        return word
                except ValueError:
                    continue
        return repr(value)
    return one_line(value, _LONGEST_VALUE)


FORMATS = {"markdown": read_markdown, "csv": read_csv, "html": read_html, "yaml": read_published}
