"""Block -> Table: what is common above, one line a row, the published rows in a table of their own, notes below."""

from dataclasses import dataclass, field

from runner.core.text import listed
from runner.records.observed import SAMPLE_SECONDS
from runner.report.cells import seconds
from runner.report.columns import lay_out, without_empty
from runner.report.notes import notes, published_time
from runner.report.rows import Block


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
    points = []
    for row in block.rows:
        taken = (1 / run.seconds if by_sample else run.seconds for run in row.complete if run.seconds)
        if row.complete:
            points.append(f"{row.first.cell}: {' '.join(map(seconds, taken))}")
    each = [f"each run, in {'samples/s' if by_sample else 'seconds'}: {'; '.join(points)}"] if points else []
    common, published = _common(block), _published(block)
    return Table(block.first.experiment, head, lines, common=common, published=published, notes=each + notes(block))


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


def _published(block: Block) -> Grid:
    """Lay out the figures that a document printed, and what follows from them.

    `speed-up` is what the document's own times give; `printed` is what it prints.
    """
    if not block.definition.get("published"):
        return Grid()
    from runner.definitions.published import figures  # with all that reads a definition

    rows, places = figures(block.definition), ("layout", *block.axes, "hardware")
    times = {published_time(row, block.first.measure) for row in rows} - {""}
    best = all("accuracy" not in row for row in rows)
    head = [*places, next(iter(times)).replace("_", " ") if len(times) == 1 else "seconds"]
    head += ["speed-up", "printed", "efficiency", "best accuracy" if best else "accuracy", "val loss"]
    lines = []
    for row in rows:
        computed, printed, losses = row.get("computed_speedup"), row.get("speedup"), row.get("val_loss")
        time, accuracy = published_time(row, block.first.measure), row.get("accuracy") or row.get("best_accuracy")
        what = f" {time.removesuffix('_seconds').replace('_', ' ')}" if len(times) > 1 else ""
        of_which = " best" if not best and "accuracy" not in row else ""
        cells = [str(row.get(place, "")) for place in places]
        cells.append(f"{row[time]:g}{what}" if time else "")
        cells.append(f"{computed:.2f}" if computed else "")
        cells.append(f"{printed:g}" if printed else "")
        cells.append(f"{computed / row['devices']:.0%}" if computed else "")
        cells.append(f"{accuracy:.2%}{of_which}" if accuracy else "")
        cells.append(f"{losses[0]:.3f} to {losses[-1]:.3f} in {len(losses)} epochs" if losses else "")
        lines.append(cells)
    return Grid(f"published: {block.definition['published']['source']}", *without_empty(head, lines))
