"""Markdown as tables and passages: pipe tables, HTML tables, and lines of cells apart by tabs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from runner.tools.audit import grids, html
from runner.tools.audit.tables import LONGEST_CELL, Cell, Page, Passage, Table, make_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_FENCE = re.compile(r"\s{0,12}(?:>\s?)*(?:[-*+]\s+)?(`{3,}|~{3,})")
_LONGEST_LINE = 5_000
_HEADS = re.compile(r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*")


def read_markdown(text: str, file: str) -> Page:
    """Read a document. Blocks of code are no text; tables drawn in them are read."""
    from markdown_it import MarkdownIt

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
            table = _table(parsed[place:], inline, _before(page))
            texts += [(token.map[0], table)] if table else []
        elif token.type == "inline" and token.map and parsed[place - 1].type in ("paragraph_open", "heading_open"):
            heading = parsed[place - 1].type == "heading_open"
            for offset, line in enumerate(token.content.split("\n")):
                words = visible(line, inline)
                if words:
                    page.passages.append(Passage(words, token.map[0] + offset + 1, heading))
        elif token.type in ("fence", "code_block") and token.map:
            first = token.map[0] + (2 if token.type == "fence" else 1)
            drawn = grids.drawn([(first + row, line) for row, line in enumerate(token.content.splitlines())])
            texts += [(table.headings[0].line, table) for table in drawn]
    found = [(table.headings[0].line, table) for table in page.tables] + texts
    passages = sorted(page.passages, key=lambda one: one.line)
    return Page(file, [table for _, table in sorted(found, key=lambda pair: pair[0])], passages)


def visible(text: str, inline: MarkdownIt) -> str:
    """Return what a reader sees of a line: links as their text, no marks, no images, no footnotes."""
    text = re.sub(r"\[\^[^\]]{1,40}\]|<sup>[^<]{0,8}</sup>", "", text)
    if not re.search(r"[*_`\[<&\\~$]", text):
        return " ".join(text.split())
    text = re.sub(r"<br\s*/?>", " ", text)
    text = re.sub(
        r"\$\s*(?:\\(?:times|approx|sim|pm)\s*)?|\\(?:times|text\w*|mathbf)\b|~~", lambda one: _tex(one[0]), text
    )
    words = "".join(_words(inline.parseInline(text)[0].children or []))
    return " ".join(words.split())


def _tex(mark: str) -> str:
    return {"times": "×", "approx": "≈", "sim": "~", "pm": "±"}.get(mark.strip("$\\ "), "")


def _words(tokens: list[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type in ("text", "code_inline"):
            yield token.content
        elif token.type in ("softbreak", "hardbreak"):
            yield " "


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


def _before(page: Page) -> str:
    """Return the text just above a table: its heading and the last lines."""
    heading = next((one.text for one in reversed(page.passages) if one.heading), "")
    return " ".join([heading, *(one.text for one in page.passages[-3:])])


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
            found = html.read_html("\n".join(lines[first : place + 1]), page.file, first + 1)
            page.tables.extend(Table(one.headings, one.rows, f"{near} {one.near}") for one in found.tables)
            page.passages.extend(found.passages)
            lines[first : place + 1] = [""] * (place + 1 - first)
            depth = 0


def _take_tabbed(lines: list[str], page: Page) -> None:
    """Read runs of lines with the same number of cells apart by tabs, and leave empty lines in their place."""
    code = _code(lines)
    place = 0
    while place < len(lines):
        count = lines[place].strip(" ").count("\t")
        last = place
        while last < len(lines) and not code[last] and count > 1 and lines[last].strip(" ").count("\t") == count:
            last += 1
        if last - place > 1 and "|" not in lines[place]:
            table = grids.tabbed([(row + 1, lines[row].strip(" ")) for row in range(place, last)])
            page.tables.extend([table] if table else [])
            lines[place:last] = [""] * (last - place)
        place = max(last, place + 1)
