"""Rows -> csv, json, markdown, latex: the whole document of each."""

import csv
import io
from collections.abc import Sequence
from typing import Any

from runner.report.columns import FIELDS, plain
from runner.report.fit import with_footnotes
from runner.report.markup import csv_cell, json, latex, markdown, markdown_line
from runner.report.rows import Block
from runner.report.table import Table, to_table

FORMS = ("table", "markdown", "csv", "latex", "json")
"""What `runner summarize` shows; the table is drawn on the terminal and no document."""


def to_rows(blocks: list[Block]) -> list[dict[str, Any]]:
    """Return the rows as plain values; the names of the fields are a promise to other people's scripts."""
    return [plain(row) for block in blocks for row in block.rows]


def document(form: str, blocks: list[Block]) -> str:
    """Write blocks in a form."""
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
