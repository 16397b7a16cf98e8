"""Rows -> table, csv, json, markdown, latex."""

from __future__ import annotations

import csv
import io
from typing import Any

import msgspec

from runner.report.fit import with_footnotes
from runner.report.forms import FIELDS, FORMS
from runner.report.markup import csv_cell, json, latex, markdown, markdown_line
from runner.report.rows import Block, Row
from runner.report.table import Grid, Table, to_table
from runner.report.utilization import limit


def to_rows(blocks: list[Block]) -> list[dict[str, Any]]:
    """Return the rows as plain values; the names of the fields are a promise to other people's scripts."""
    return [_plain(row) for block in blocks for row in block.rows]


def as_json(blocks: list[Block]) -> str:
    """Write the rows as a JSON list, each in a line of its own."""
    return _document("json", blocks)


def as_csv(blocks: list[Block]) -> str:
    """Write the rows as CSV; what is no plain value becomes JSON within its field."""
    return _document("csv", blocks)


def as_latex(blocks: list[Block]) -> str:
    """Write one LaTeX table a block, for the package booktabs."""
    return _document("latex", blocks)


def as_markdown(blocks: list[Block]) -> str:
    """Write one Markdown table a block."""
    return _document("markdown", blocks)


def write(form: str, block: Block) -> str:
    """Write the text of one block in one of the `FORMS`."""
    return write_table(form, to_table(block)) if form in TABLES else _WRITERS[form](block)


def _document(form: str, blocks: list[Block]) -> str:
    return "".join(FORMS[form].document(write(form, block) for block in blocks))


def _json(block: Block) -> str:
    return FORMS["json"].between.join(json(_plain(row)) for row in block.rows)


def _csv(block: Block) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, FIELDS, lineterminator="\n")
    for row in block.rows:
        writer.writerow({key: csv_cell(value) for key, value in _plain(row).items()})
    return text.getvalue()


def write_table(form: str, table: Table) -> str:
    """Write a table in one of the `FORMS` that are tables."""
    return {"table": _encoded, "markdown": _markdown, "latex": _latex}[form](table)


def _markdown(table: Table) -> str:
    parts = [f"### {markdown(table.title)}", ""]
    parts += [f"{markdown_line(line)}  " for line in table.common]
    parts += ["", *_pipes(table), ""]
    if table.published.lines:
        parts += [markdown_line(table.published.title), "", *_pipes(table.published), ""]
    parts += [f"- {markdown_line(note)}" for note in table.notes] + ([""] if table.notes else [])
    return "\n".join(parts)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _latex(table: Table) -> str:
    measured = with_footnotes(table)
    what = " ".join([f"{latex(table.title)}:", *(_sentence(latex(line)) for line in table.common)])
    parts = ["\\begin{table}", "\\centering", f"\\caption{{{what}}}", *_tabular(measured.names, measured.lines)]
    if table.published.lines:
        parts += ["", "\\medskip", latex(table.published.title), "", "\\smallskip"]
        parts += _tabular(table.published.head, table.published.lines)
    if below := [*measured.footnotes, *table.notes]:
        parts += ["\\begin{flushleft}", "\\footnotesize", " \\\\\n".join(map(latex, below)), "\\end{flushleft}"]
    return "\n".join([*parts, "\\end{table}", ""])


def _tabular(head: list[str], lines: list[list[str]]) -> list[str]:
    rows = [" & ".join(map(latex, cells)) + " \\\\" for cells in (head, *lines)]
    return [
        f"\\begin{{tabular}}{{{'l' * len(head)}}}",
        *("\\toprule", rows[0], "\\midrule", *rows[1:], "\\bottomrule"),
        "\\end{tabular}",
    ]


def _encoded(table: Table) -> str:
    return msgspec.json.encode(table).decode()


TABLES = ("table", "markdown", "latex")
"""The forms that are tables for people."""
_WRITERS = {"csv": _csv, "json": _json}


def _plain(row: Row) -> dict[str, Any]:
    run, seconds, speedup, efficiency = row.first, row.seconds, row.speedup, row.efficiency
    return {
        "experiment": run.experiment,
        "target": run.target,
        "layout": run.layout,
        "axes": run.axes,
        "n": len(row.complete),
        "seconds": seconds.value if seconds else None,
        "seconds_low": seconds.low if seconds else None,
        "seconds_high": seconds.high if seconds else None,
        "speedup": speedup.value if speedup else None,
        "speedup_low": speedup.low if speedup else None,
        "speedup_high": speedup.high if speedup else None,
        "efficiency": efficiency.value if efficiency else None,
        "accuracy": row.mean("accuracy"),
        "claimed": row.claimed,
        "not_complete": len(row.runs) - len(row.complete),
        "processes": run.processes,
        "best_accuracy": row.mean("best_accuracy"),
        "serial_fraction": row.serial_fraction,
        "hardware": run.hardware,
        "program": run.program,
        "args": run.args,
        "scaling": run.scaling,
        "measure": run.measure,
        "points": [one.seconds for one in row.complete],
        "published": row.published,
        "started_by_hand": sum(run.by_hand for run in row.runs),
        "load": row.load,
        "sources": row.sources,
        "mfu": row.mean("mfu"),
        "limited_by": limit(row),
    }


def _pipes(grid: Grid) -> list[str]:
    rule = "|" + " --- |" * len(grid.head)
    return [_pipe(grid.head), rule, *map(_pipe, grid.lines)]


def _pipe(cells: list[str]) -> str:
    return "| " + " | ".join(markdown(cell) for cell in cells) + " |"
