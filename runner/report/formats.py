"""Rows -> table, csv, json, markdown."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from runner.core.text import one_line
from runner.definitions.published import NUMBERS, figures
from runner.report.forms import FIELDS, FORMS
from runner.report.markup import csv_cell, json, markdown, markdown_line
from runner.report.notes import notes
from runner.report.statistics import decimals

if TYPE_CHECKING:
    from runner.report.rows import Block, Row
    from runner.report.statistics import Estimate


@dataclass(frozen=True)
class Table:
    """A block as text: what is common, once, above; one line a row; notes below. Each text is one printable line."""

    title: str
    common: list[str]
    head: list[str]
    lines: list[list[str]]
    notes: list[str]

    def __post_init__(self) -> None:
        """Make one line of each text: whatever a record holds, it cannot forge a row or move a cursor."""
        object.__setattr__(self, "title", one_line(self.title))
        for name in ("common", "head", "notes"):
            object.__setattr__(self, name, [one_line(text) for text in getattr(self, name)])
        object.__setattr__(self, "lines", [[one_line(cell) for cell in line] for line in self.lines])


def to_rows(blocks: list[Block]) -> list[dict[str, Any]]:
    """Return the rows as plain values; the names of the fields are a promise to other people's scripts."""
    return [_plain(row) for block in blocks for row in block.rows]


def as_json(blocks: list[Block]) -> str:
    """Write the rows as a JSON list, each in a line of its own."""
    return _document("json", blocks)


def as_csv(blocks: list[Block]) -> str:
    """Write the rows as CSV; what is no plain value becomes JSON within its field."""
    return _document("csv", blocks)


def as_markdown(blocks: list[Block]) -> str:
    """Write one Markdown table a block."""
    return _document("markdown", blocks)


def write(form: str, block: Block) -> str:
    """Write the text of one block in one of the `FORMS`."""
    return _WRITERS[form](block)


def read_table(text: str) -> Table:
    """Read a text of the form `table`."""
    return msgspec.json.decode(text, type=Table)


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


def _markdown(block: Block) -> str:
    table = to_table(block)
    parts = [f"### {markdown(table.title)}", ""]
    parts += [f"{markdown_line(line)}  " for line in table.common]
    parts += ["", _pipe(table.head), _pipe(["---"] * len(table.head)), *map(_pipe, table.lines), ""]
    parts += [f"- {markdown_line(note)}" for note in table.notes] + ([""] if table.notes else [])
    return "\n".join(parts)


def _table(block: Block) -> str:
    return msgspec.json.encode(to_table(block)).decode()


_WRITERS = {"table": _table, "markdown": _markdown, "csv": _csv, "json": _json}


def to_table(block: Block) -> Table:
    """Lay a block out for reading; published rows stand below the measured ones."""
    run = block.first
    axes = list(run.axes)
    head = ["layout", *axes, "n", f"{run.measure.replace('_', ' ')} [95%]", "speed-up [95%]", "efficiency"]
    head += ["serial", "accuracy", "claimed"]
    lines = [_line(row, axes) for row in block.rows]
    lines += [_published_line(line, axes, run.measure) for line in figures(block.definition)]
    points = "; ".join(
        f"{row.first.cell}: {' '.join(_seconds(one.seconds) for one in row.complete if one.seconds)}"
        for row in block.rows
        if row.complete
    )
    below = ([f"each run, in seconds: {points}"] if points else []) + notes(block)
    return Table(run.experiment, _common(block), _without_empty(head, lines), _columns(head, lines), below)


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
    }


def _common(block: Block) -> list[str]:
    """Say once what all rows share."""
    run = block.first
    summary = block.definition.get("summary", "")
    work = next((row.complete[0] for row in block.rows if row.complete), run)
    batches = sorted({row.first.global_batch_size for row in block.rows if row.first.global_batch_size})
    args = " ".join(f"{key}={value}" for key, value in run.args.items() if key not in ("scaling", "device"))
    about = [f"target {run.target}", f"{run.scaling} scaling"]
    if batches:
        about.append(f"global batch {', '.join(map(str, batches))}")
    if work.trained_samples:
        about.append(f"{work.trained_samples:,} samples trained in {work.steps:,} steps")
    if work.torch:
        about.append(f"torch {work.torch}")
    what = ": ".join(word for word in ("" if "program" in run.axes else run.program, args) if word)
    return [line for line in (summary, f"on {run.hardware}; {'; '.join(about)}", what) if line]


def _line(row: Row, axes: list[str]) -> list[str]:
    efficiency, serial, accuracy = row.efficiency, row.serial_fraction, row.mean("accuracy")
    return [
        row.first.layout,
        *(str(row.first.axes.get(axis, "")) for axis in axes),
        str(len(row.complete)),
        _estimate(row.seconds),
        _estimate(row.speedup),
        f"{efficiency.value:.0%}" if efficiency else "",
        f"{serial:.1%}" if serial is not None else "",
        f"{accuracy:.2%}" if accuracy is not None else "",
        "yes" if row.claimed is True else f"{row.claimed}",
    ]


def _published_line(line: dict[str, Any], axes: list[str], measure: str) -> list[str]:
    """Lay out a published row: its own figures, and the speed-up that its own times give."""
    times = [key for key in (measure, *NUMBERS) if key.endswith("_seconds") and line.get(key)]
    seconds = line[times[0]] if times else None
    accuracy = line.get("accuracy") or line.get("best_accuracy")
    name = "" if measure in times or not times else " " + times[0].removesuffix("_seconds").replace("_", " ")
    computed, printed = line.get("computed_speedup"), line.get("speedup")
    speedup = f"{computed:.2f}" if computed else ""
    if printed and (not computed or abs(printed - computed) > line["rounding"]):
        speedup = f"{speedup} (printed {printed:g})".strip()
    curve = line.get("val_loss")
    if curve and not seconds:
        name = f"val loss {curve[0]:.3f} to {curve[-1]:.3f} in {len(curve)} epochs"
    return [
        str(line.get("layout", "")),
        *(str(line.get(axis, "")) for axis in axes),
        "",
        f"{seconds:g}{name}" if seconds else name,
        speedup,
        f"{computed / line['devices']:.0%}" if computed and line.get("devices") else "",
        "",
        f"{accuracy:.2%}" + (" best" if "accuracy" not in line else "") if accuracy else "",
        f"published: {line['hardware']}",
    ]


def _estimate(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    digits = decimals(estimate.value) if estimate.value < 1000 else 0  # noqa: PLR2004 - four digits of seconds say enough
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.{digits}f}"
    return f"{estimate.value:.{digits}f} [{estimate.low:.{digits}f}, {estimate.high:.{digits}f}]"


def _seconds(value: float) -> str:
    return f"{value:.{decimals(value)}f}"


def _pipe(cells: list[str]) -> str:
    return "| " + " | ".join(markdown(cell) for cell in cells) + " |"


def _used(head: list[str], lines: list[list[str]]) -> list[int]:
    """Return the columns in which anything stands."""
    return [column for column in range(len(head)) if any(line[column] for line in lines)]


def _without_empty(head: list[str], lines: list[list[str]]) -> list[str]:
    return [head[column] for column in _used(head, lines)]


def _columns(head: list[str], lines: list[list[str]]) -> list[list[str]]:
    used = _used(head, lines)
    return [[line[column] for column in used] for line in lines]
