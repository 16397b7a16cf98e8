"""HTML as tables and passages; merged cells are repeated in every place that they cover."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

from runner.tools.audit.tables import MOST_CELLS, MOST_COLUMNS, Cell, Page, Passage, make_table

_HIDDEN = {"script", "style", "template", "head"}
_BREAKS = {"p", "div", "li", "h1", "h2", "h3", "h4", "h5", "h6", "br", "caption", "tr", "section", "pre", "dt", "dd"}
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_DEEPEST = 30


@dataclass
class _Grid:
    """A table that is being read."""

    rows: list[list[Cell]] = field(default_factory=list)
    heads: int = 0
    row: list[Cell] = field(default_factory=list)
    in_row: bool = False
    in_head: bool = False
    only_heads: bool = True
    below: dict[int, tuple[int, Cell]] = field(default_factory=dict)  # column: rows that a cell still covers
    text: list[str] | None = None
    line: int = 1
    spans: tuple[int, int] = (1, 1)
    caption: str = ""


def read_html(text: str, file: str, first_line: int = 1) -> Page:
    """Read all tables of a page, nested ones too; whatever is not closed or not opened is taken as it stands."""
    # Nothing may begin that does not end: Python's parser looks for each end again and again.
    text = text[: text.rfind(">") + 1].replace("<![", "&lt;![")
    end = text.rfind("-->") + 3 if "-->" in text else 0
    reader = _Reader(file, first_line)
    reader.feed(text[:end] + text[end:].replace("<!--", "&lt;!--"))
    reader.close()
    return reader.end()


class _Reader(HTMLParser):
    def __init__(self, file: str, first_line: int) -> None:
        super().__init__(convert_charrefs=True)
        self.lineno = first_line
        self._page = Page(file)
        self._open: list[_Grid] = []
        self._hidden = 0
        self._cells = 0
        self._text: list[str] = []
        self._line = first_line
        self._heading = False
        self._small = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in _HIDDEN
        if tag in _BREAKS and not (self._open and self._open[-1].text is not None):
            self._flush()
            self._heading = tag in _HEADINGS
        elif tag in _BREAKS:
            self.handle_data(" ")
        if tag == "table":
            self._flush()
            if len(self._open) < _DEEPEST:
                self._open.append(_Grid())
        elif tag == "sup":
            self._small = True
        elif self._open and tag == "thead":
            self._open[-1].in_head = True
        elif self._open and tag == "tr":
            self._end_row(self._open[-1])
            self._open[-1].in_row = True
        elif self._open and tag in ("td", "th"):
            grid, spans = self._open[-1], dict(attrs)
            self._end_cell(grid)
            grid.in_row = True
            grid.text, grid.line = [], self.getpos()[0]
            grid.spans = (_span(spans.get("rowspan"), 1_000), _span(spans.get("colspan"), MOST_COLUMNS))
            grid.only_heads &= tag == "th"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in ("br", "td", "th", "tr", "table"):
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in _HIDDEN:
            self._hidden = max(0, self._hidden - 1)
        elif tag == "sup":
            self._small = False
        elif not self._open:
            if tag in _BREAKS:
                self._flush()
        elif tag in ("td", "th"):
            self._end_cell(self._open[-1])
        elif tag in ("tr", "thead"):
            self._end_row(self._open[-1])
            self._open[-1].in_head &= tag == "tr"
        elif tag == "caption":
            self._open[-1].caption = " ".join("".join(self._text).split())
            self._flush()
        elif tag == "table":
            self._end_table(self._open.pop())

    def handle_data(self, data: str) -> None:
        if self._hidden or (self._small and re.fullmatch(r"\W*\w?\d?\W*", data)):
            return  # a note's sign
        if self._open and self._open[-1].text is not None:
            self._open[-1].text.append(data)
            return
        for piece in re.split(r"(\n)", data):
            if piece == "\n" and self._text:
                self._text.append(" ")
            elif piece.strip():
                if not self._text:
                    self._line = self.getpos()[0] + data[: data.index(piece)].count("\n")
                self._text.append(piece)

    def _flush(self) -> None:
        words = " ".join("".join(self._text).split())
        if words:
            self._page.passages.append(Passage(words, self._line, self._heading))
        self._text, self._heading = [], False

    def _end_cell(self, grid: _Grid) -> None:
        if grid.text is None:
            return
        cell = Cell(" ".join("".join(grid.text).split()), grid.line)
        grid.text = None
        down, right = grid.spans
        self._fill(grid)
        for _ in range(right):
            if len(grid.row) >= MOST_COLUMNS or self._cells > MOST_CELLS:
                break
            if down > 1:
                grid.below[len(grid.row)] = (down - 1, cell)
            grid.row.append(cell)
            self._cells += 1

    def _fill(self, grid: _Grid) -> None:
        """Put in the cells of rows above that reach down to here."""
        while len(grid.row) in grid.below:
            column = len(grid.row)
            left, cell = grid.below.pop(column)
            if left > 1:
                grid.below[column] = (left - 1, cell)
            grid.row.append(Cell(cell.text, self.getpos()[0]))
            self._cells += 1

    def _end_row(self, grid: _Grid) -> None:
        self._end_cell(grid)
        if grid.in_row and (grid.row or grid.below):
            self._fill(grid)
            if (grid.in_head or grid.only_heads) and grid.heads == len(grid.rows):
                grid.heads += 1
            grid.rows.append(grid.row)
        grid.row, grid.in_row, grid.only_heads = [], False, True

    def _end_table(self, grid: _Grid) -> None:
        self._end_row(grid)
        near = grid.caption or " ".join(passage.text for passage in self._page.passages[-2:])
        table = make_table(grid.rows, max(1, min(grid.heads, len(grid.rows) - 1)), near)
        if table:
            self._page.tables.append(table)

    def end(self) -> Page:
        while self._open:
            self._end_table(self._open.pop())
        self._flush()
        self._page.tables.sort(key=lambda table: table.headings[0].line)
        return self._page


def _span(value: str | None, most: int) -> int:
    return min(max(int(value), 1), most) if value and value.strip().isdecimal() and len(value) < 6 else 1
