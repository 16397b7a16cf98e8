"""Tables of plain text: cells apart by tabs, or drawn with spaces or lines, as terminals show them."""

from __future__ import annotations

import re

from runner.tools.audit.tables import Cell, Table, make_table

_WORD = re.compile(r"\S+(?: \S+)*")
_DRAWN = re.compile(r"[|│┃║]")
_RULE = re.compile(r"[\s+|:=_\-─━┄┈═│┃┌┐└┘├┤┬┴┼╞╪╡╭╮╰╯┏┓┗┛┡┩╇╋┳┻]*")


def tabbed(lines: list[tuple[int, str]]) -> Table | None:
    """Read lines whose cells are apart by tabs."""
    return make_table([[Cell(cell.strip(), number) for cell in line.split("\t")] for number, line in lines])


def drawn(lines: list[tuple[int, str]]) -> list[Table]:
    """Read the tables of a block of text: each begins with a line of headings and ends with an empty line."""
    tables, rows = [], list[tuple[int, str]]()
    for number, line in [*lines, (0, "")]:
        if line.strip():
            if not _RULE.fullmatch(line):
                rows.append((number, line))
            continue
        table = _lined(rows) if len(rows) > 1 and len(_DRAWN.findall(rows[0][1])) > 1 else _spaced(rows)
        if table:
            tables.append(table)
        rows = []
    return tables


def _lined(rows: list[tuple[int, str]]) -> Table | None:
    cells = [[Cell(cell.strip(), number) for cell in _DRAWN.split(line.strip().strip("|│┃║"))] for number, line in rows]
    width = len(cells[0])
    return make_table([row for row in cells if len(row) == width])


def _spaced(rows: list[tuple[int, str]]) -> Table | None:
    """Give every word of a row to the heading above or below which most of it stands."""
    for first, (number, line) in enumerate(rows):
        heads = [(found.start(), found.end(), found[0]) for found in _WORD.finditer(line)]
        if len(heads) < 3 or sum(any(map(str.isalpha, text)) for *_, text in heads) < len(heads) - 1:  # noqa: PLR2004
            continue
        body = [row for row in (_aligned(line, at, heads) for at, line in rows[first + 1 :]) if row]
        return make_table([[Cell(text, number) for *_, text in heads], *body]) if body else None
    return None


def _aligned(line: str, number: int, heads: list[tuple[int, int, str]]) -> list[Cell] | None:
    row = [""] * len(heads)
    for found in _WORD.finditer(line):
        distances = [max(begin - found.end(), found.start() - end) for begin, end, _ in heads]
        nearest = distances.index(min(distances))
        if row[nearest]:
            return None
        row[nearest] = found[0]
    return [Cell(text, number) for text in row] if sum(map(bool, row)) > 1 else None
