"""Block -> Table: what is common above, one line a row, the published rows in a table of their own, notes below."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from runner.core.text import listed, one_line
from runner.report.cells import estimate, interval, seconds, share
from runner.report.notes import notes
from runner.report.published_rows import published_grid
from runner.report.rows import Block, Row

CLAIMED = "claimed"
"""The head of the last column: yes, or the reason why not."""


@dataclass(frozen=True)
class Grid:
    """Columns with something in them, and what stands above them; each text is one printable line."""

    title: str = ""
    head: list[str] = field(default_factory=list)
    lines: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make one line of each text: whatever a record holds, it cannot forge a row or move a cursor."""
        object.__setattr__(self, "title", one_line(self.title))
        object.__setattr__(self, "head", [one_line(text) for text in self.head])
        object.__setattr__(self, "lines", [[one_line(cell) for cell in line] for line in self.lines])


@dataclass(frozen=True)
class Table(Grid):
    """A block as text; `published` has no lines if nothing was published."""

    common: list[str] = field(default_factory=list)
    published: Grid = field(default_factory=Grid)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make one line of each text."""
        super().__post_init__()
        for name in ("common", "notes"):
            object.__setattr__(self, name, [one_line(text) for text in getattr(self, name)])


def read_table(text: str) -> Table:
    """Read a text of the form `table`."""
    return msgspec.json.decode(text, type=Table)


def to_table(block: Block) -> Table:
    """Lay a block out for reading."""
    run = block.first
    axes = block.axes
    head = ["layout", *axes, "n", f"{run.measure.replace('_', ' ')} [95%]", "speed-up [95%]", "efficiency"]
    head += ["serial", "accuracy", "MFU", CLAIMED]
    head, lines = without_empty(head, [_line(row, axes) for row in block.rows])
    points = "; ".join(
        f"{row.first.cell}: {' '.join(seconds(one.seconds) for one in row.complete if one.seconds)}"
        for row in block.rows
        if row.complete
    )
    below = ([f"each run, in seconds: {points}"] if points else []) + notes(block)
    title, head_of_published, published = published_grid(block)
    beside = Grid(title, *without_empty(head_of_published, published))
    return Table(run.experiment, head, lines, common=_common(block), published=beside, notes=below)


def without_empty(head: list[str], lines: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Leave the columns in which anything stands."""
    used = [column for column in range(len(head)) if any(line[column] for line in lines)]
    return [head[column] for column in used], [[line[column] for column in used] for line in lines]


def _common(block: Block) -> list[str]:
    """Say once what all rows share, and list the values of what may differ between them."""
    run = block.first
    summary = block.definition.get("summary", "")
    measured = [row.complete[0] for row in block.rows if row.complete] or [run]
    args = " ".join(f"{key}={value}" for key, value in run.args.items() if key not in ("scaling", "device"))
    about = [f"target {run.target}", f"{run.scaling} scaling"]
    if batches := {row.first.global_batch_size for row in block.rows} - {0}:
        about.append(f"global batch {listed(sorted(batches))}")
    if samples := {one.trained_samples for one in measured} - {0}:
        about.append(f"{_each(samples)} samples trained in {_each({one.steps for one in measured})} steps")
    if versions := {one.torch for one in measured} - {""}:
        about.append(f"torch {listed(sorted(versions))}")
    what = ": ".join(word for word in ("" if "program" in run.axes else run.program, args) if word)
    return [line for line in (summary, f"on {run.hardware}; {'; '.join(about)}", what) if line]


def _each(counts: set[int]) -> str:
    """Name each of some counts, whose thousands have commas."""
    return listed((f"{count:,}" for count in sorted(counts)), " or ")


def _line(row: Row, axes: list[str]) -> list[str]:
    efficiency, serial, accuracy = row.efficiency, row.serial_fraction, row.mean("accuracy")
    return [
        row.first.layout,
        *(str(row.first.axes.get(axis, "")) for axis in axes),
        str(len(row.complete)),
        interval(row.seconds),
        estimate(row.speedup),
        f"{efficiency.value:.0%}" if efficiency else "",
        f"{serial:.1%}" if serial is not None else "",
        f"{accuracy:.2%}" if accuracy is not None else "",
        share(row.mean("mfu")),
        "yes" if row.claimed is True else f"{row.claimed}",
    ]
