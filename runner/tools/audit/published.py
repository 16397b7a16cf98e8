"""The rows under `published:` of a definition as a table; the numbers are as they stand in the file."""

from runner.core import yaml_reader
from runner.core.text import one_line
from runner.tools.audit.tables import MOST_COLUMNS, Cell, Page, make_table

_LONGEST = 200


def read_published(text: str, name: str) -> Page:
    """Read `published: {rows: [...]}`; a key becomes a column, and what stands for many values, a curve, none.

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
    table = [[Cell(one_line(key, _LONGEST), first) for key in names]]
    for index, row in enumerate(rows):
        here = document.lines.get(("published", "rows", index), first)
        cells = []
        for key in names:
            line = document.lines.get(("published", "rows", index, key), here)
            cells.append(Cell(_printed(key, row.get(key), lines[line - 1 : line + 1]), line))
        table.append(cells)
    near = " ".join(str(row.get("note", ""))[:_LONGEST] for row in rows)
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
    return one_line(value, _LONGEST)
