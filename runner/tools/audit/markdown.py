"""Markdown as tables and passages: pipe tables, HTML tables, cells apart by tabs, and tables drawn in text."""

import re
from itertools import groupby

from markdown_it import MarkdownIt
from markdown_it.token import Token

from runner.tools.audit.html import read_html
from runner.tools.audit.tables import LONGEST_CELL, Cell, Page, Passage, Table, make_table

_FENCE = re.compile(r"\s{0,12}(?:>\s?)*(?:[-*+]\s+)?(`{3,}|~{3,})")
_TEX = re.compile(r"\$\s*(?:\\(?:times|approx|sim|pm)\s*)?|\\(?:times|text\w*|mathbf)\b|~~")
_SIGNS = {"times": "×", "approx": "≈", "sim": "~", "pm": "±"}
_BREAKS = ("softbreak", "hardbreak")
_SHOWN = ("text", "code_inline", *_BREAKS)
_LONGEST_LINE = 5_000
_WORD = re.compile(r"\S+(?: \S+)*")
_DRAWN = re.compile(r"[|│┃║]")
_RULE = re.compile(r"[\s+|:=_\-─━┄┈═│┃┌┐└┘├┤┬┴┼╞╪╡╭╮╰╯┏┓┗┛┡┩╇╋┳┻]*")


def read_markdown(text: str, file: str) -> Page:
    """Read a document. Blocks of code are no text; tables drawn in them are read."""
    lines = [line[:_LONGEST_LINE] for line in text.splitlines()]
    page = Page(file)
    _take_html(lines, page)
    _take_tabbed(lines, page)
    inline = MarkdownIt("commonmark").disable("autolink")
    blocks = MarkdownIt("zero").enable(["table", "fence", "code", "heading", "lheading", "blockquote", "list", "hr"])
    parsed = blocks.parse("\n".join(lines))
    texts: list[tuple[int, Table]] = []
    for place, token in enumerate(parsed):
        if token.type == "table_open" and token.map:
            heading = next((passage.text for passage in reversed(page.passages) if passage.heading), "")
            near = " ".join([heading, *(passage.text for passage in page.passages[-3:])])
            table = _table(parsed[place:], inline, near)
            texts += [(token.map[0], table)] if table else []
        elif token.type == "inline" and token.map and parsed[place - 1].type in ("paragraph_open", "heading_open"):
            is_heading = parsed[place - 1].type == "heading_open"
            for offset, line in enumerate(token.content.split("\n")):
                words = visible(line, inline)
                if words:
                    page.passages.append(Passage(words, token.map[0] + offset + 1, is_heading))
        elif token.type in ("fence", "code_block") and token.map:
            first = token.map[0] + (2 if token.type == "fence" else 1)
            drawn = _drawn([(first + row, line) for row, line in enumerate(token.content.splitlines())])
            texts += [(table.headings[0].line, table) for table in drawn]
    found = [(table.headings[0].line, table) for table in page.tables] + texts
    passages = sorted(page.passages, key=lambda passage: passage.line)
    return Page(file, [table for _, table in sorted(found, key=lambda pair: pair[0])], passages)


def visible(text: str, inline: MarkdownIt) -> str:
    """Return what a reader sees of a line: links as their text, no marks, no images, no footnotes."""
    text = re.sub(r"\[\^[^\]]{1,40}\]|<sup>[^<]{0,8}</sup>", "", text)
    if not re.search(r"[*_`\[<&\\~$]", text):
        return " ".join(text.split())
    text = re.sub(r"<br\s*/?>", " ", text)
    text = _TEX.sub(lambda found: _SIGNS.get(found[0].strip("$\\ "), ""), text)
    tokens = inline.parseInline(text)[0].children or []
    words = [" " if token.type in _BREAKS else token.content for token in tokens if token.type in _SHOWN]
    return " ".join("".join(words).split())


def _table(tokens: list[Token], inline: MarkdownIt, near: str) -> Table | None:
    rows: list[list[Cell]] = []
    line = 1
    for token in tokens:
        if token.type == "table_close":
            break
        if token.type == "tr_open":
            line = token.map[0] + 1 if token.map else line
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(Cell(visible(token.content[: 4 * LONGEST_CELL], inline), line))
    return make_table(rows, 1, near) if rows else None


def _code(lines: list[str]) -> list[bool]:
    """Return for each line whether it stands in a fenced block."""
    inside, mark = [], ""
    for line in lines:
        found = _FENCE.match(line)
        if mark:
            inside.append(True)
            if found and found[1].startswith(mark) and not line.strip().strip("`~> "):
                mark = ""
            continue
        if found:
            mark = found[1]
        inside.append(bool(found))
    return inside


def _take_html(lines: list[str], page: Page) -> None:
    """Read HTML tables, which may hold empty lines, and leave empty lines in their place."""
    code = _code(lines)
    first, depth = 0, 0
    for place, line in enumerate(lines):
        if code[place]:
            continue
        opened = len(re.findall(r"<table\b", line, re.IGNORECASE))
        if opened and not depth:
            first = place
        if not opened and not depth:
            continue
        depth += opened - len(re.findall(r"</table\s*>", line, re.IGNORECASE))
        if depth <= 0 or place + 1 == len(lines):
            near = " ".join(lines[max(0, first - 6) : first])
            found = read_html("\n".join(lines[first : place + 1]), page.file, first + 1)
            page.tables.extend(Table(table.headings, table.rows, f"{near} {table.near}") for table in found.tables)
            page.passages.extend(found.passages)
            lines[first : place + 1] = [""] * (place + 1 - first)
            depth = 0


def _take_tabbed(lines: list[str], page: Page) -> None:
    """Read runs of lines with the same number of cells apart by tabs, and leave empty lines in their place."""
    code = _code(lines)
    tabs = [0 if inside else line.strip(" ").count("\t") for inside, line in zip(code, lines, strict=True)]
    for count, run in groupby(range(len(lines)), key=lambda place: tabs[place]):
        places = list(run)
        if count > 1 and len(places) > 1 and "|" not in lines[places[0]]:
            split = [(place + 1, lines[place].strip(" ").split("\t")) for place in places]
            table = make_table([[Cell(cell.strip(), number) for cell in cells] for number, cells in split])
            page.tables.extend([table] if table else [])
            for place in places:
                lines[place] = ""


def _drawn(lines: list[tuple[int, str]]) -> list[Table]:
    """Read the tables of a block of text: each begins with a line of headings and ends with an empty line."""
    tables, rows = [], list[tuple[int, str]]()
    for number, line in [*lines, (0, "")]:
        if line.strip():
            rows += [(number, line)] if not _RULE.fullmatch(line) else []
            continue
        table = _lined(rows) if len(rows) > 1 and len(_DRAWN.findall(rows[0][1])) > 1 else _spaced(rows)
        tables += [table] if table else []
        rows = []
    return tables


def _lined(rows: list[tuple[int, str]]) -> Table | None:
    cells = [[Cell(cell.strip(), number) for cell in _DRAWN.split(line.strip().strip("|│┃║"))] for number, line in rows]
    return make_table([row for row in cells if len(row) == len(cells[0])])


def _spaced(rows: list[tuple[int, str]]) -> Table | None:
    """Give every word of a row to the heading above or below which most of it stands."""
    for first, (number, line) in enumerate(rows):
        heads = [(found.start(), found.end(), found[0]) for found in _WORD.finditer(line)]
        if len(heads) < 3 or sum(any(map(str.isalpha, text)) for *_, text in heads) < len(heads) - 1:
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
