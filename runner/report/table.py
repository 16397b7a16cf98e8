"""Block -> Table: what is common above, one line a row, the published rows in a table of their own, notes below."""

from dataclasses import dataclass, field

from runner.core.text import listed
from runner.records.observed import SAMPLE_SECONDS
from runner.report.cells import seconds
from runner.report.columns import lay_out, without_empty
from runner.report.notes import notes
from runner.report.published_rows import published_grid
from runner.report.rows import Block, Row


@dataclass(frozen=True)
class Grid:
    """Columns with something in them, and what stands above them; whoever writes it escapes it."""

    title: str = ""
    head: list[str] = field(default_factory=list)
    lines: list[list[str]] = field(default_factory=list)


@dataclass(frozen=True)
class Table(Grid):
    """A block as text; `published` has no lines if nothing was published."""

    common: list[str] = field(default_factory=list)
    published: Grid = field(default_factory=Grid)
    notes: list[str] = field(default_factory=list)


def to_table(block: Block) -> Table:
    """Lay a block out for reading."""
    head, lines = lay_out(block, block.rows)
    by_sample = block.first.measure == SAMPLE_SECONDS
    points = "; ".join(
        f"{row.first.cell}: {' '.join(seconds(1 / took if by_sample else took) for took in _taken(row))}"
        for row in block.rows
        if row.complete
    )
    unit = "samples/s" if by_sample else "seconds"
    below = ([f"each run, in {unit}: {points}"] if points else []) + notes(block)
    title, head_of_published, published = published_grid(block)
    beside = Grid(title, *without_empty(head_of_published, published))
    return Table(block.first.experiment, head, lines, common=_common(block), published=beside, notes=below)


def _taken(row: Row) -> list[float]:
    return [run.seconds for run in row.complete if run.seconds]


def _common(block: Block) -> list[str]:
    """Return what all rows share, and the values of what may differ between them."""
    run = block.first
    summary = block.definition.get("summary", "")
    measured = [each for row in block.rows for each in row.complete] or [run]
    args = " ".join(f"{key}={value}" for key, value in run.args.items() if key not in ("scaling", "device"))
    about = [f"target {run.target}"]
    if kinds := {row.scaling for row in block.rows if row.scaling}:
        about.append(f"{listed(sorted(kinds))} scaling")
    elif len(block.rows) > 1 or run.measure != SAMPLE_SECONDS:
        about.append("kind of scaling not known")
    if batches := {row.first.global_batch_size for row in block.rows} - {0}:
        about.append(f"global batch {listed(sorted(batches))}")
    if samples := {run.trained_samples for run in measured} - {0}:
        about.append(f"{_each(samples)} samples trained in {_each({run.steps for run in measured})} steps")
    if versions := {run.torch for run in measured} - {""}:
        about.append(f"torch {listed(sorted(versions))}")
    what = ": ".join(word for word in ("" if "program" in run.axes else run.program, args) if word)
    return [line for line in (summary, f"on {run.hardware}; {'; '.join(about)}", what) if line]


def _each(counts: set[int]) -> str:
    """Name each of some counts, whose thousands have commas."""
    return listed((f"{count:,}" for count in sorted(counts)), " or ")
