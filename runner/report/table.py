"""Lay out blocks as tables, and make tables fit the width of a terminal."""

import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from runner.core.text import listed
from runner.records.observed import SAMPLE_SECONDS
from runner.report.columns import CLAIMED, DISPENSABLE, SHORT, lay_out, only, seconds, without_empty
from runner.report.notes import PUBLISHED_TIMES, notes
from runner.report.rows import Block

_LONGEST_INLINE = len("the baseline")


@dataclass(frozen=True)
class Grid:
    """A title and non-empty columns, as unescaped text."""

    title: str = ""
    head: list[str] = field(default_factory=list)
    lines: list[list[str]] = field(default_factory=list)


@dataclass(frozen=True)
class Table(Grid):
    """A block as text, with a line for each row. `common` has facts common to all rows. `published` may be empty."""

    common: list[str] = field(default_factory=list)
    published: Grid = field(default_factory=Grid)
    notes: list[str] = field(default_factory=list)


def to_table(block: Block) -> Table:
    """Lay out a block as a table."""
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
    run = block.first
    summary = block.definition.get("summary", "")
    measured = [each for row in block.rows for each in row.complete] or [run]
    args = " ".join(f"{key}={value}" for key, value in run.args.items() if key not in ("scaling", "device"))
    about = [f"target {run.target}"]
    if kinds := {row.scaling for row in block.rows if row.scaling}:
        about.append(f"{listed(sorted(kinds))} scaling")
    elif len(block.rows) > 1 or run.measure != SAMPLE_SECONDS:
        about.append("kind of scaling unknown")
    if batches := {row.first.global_batch_size for row in block.rows} - {0}:
        about.append(f"global batch {listed(sorted(batches))}")
    if samples := {run.trained_samples for run in measured} - {0}:
        about.append(f"{_each(samples)} samples trained in {_each({run.steps for run in measured})} steps")
    if versions := {run.torch for run in measured} - {""}:
        about.append(f"torch {listed(sorted(versions))}")
    what = ": ".join(word for word in ("" if "program" in run.axes else run.program, args) if word)
    return [line for line in (summary, f"on {run.hardware}; {'; '.join(about)}", what) if line]


def _each(counts: set[int]) -> str:
    return listed((f"{count:,}" for count in sorted(counts)), " or ")


def _published(block: Block) -> Grid:
    if not block.definition.get("published"):
        return Grid()
    from runner.definitions.published import figures  # slow to import

    places = ("layout", *block.axes, "hardware")
    head = [*places, *(name.replace("_", " ") for name in PUBLISHED_TIMES)]
    head += ["speed-up", "printed", "efficiency", "accuracy", "best accuracy", "val loss"]
    lines = []
    for row in figures(block.definition):
        speedup, losses = row.get("computed_speedup"), row.get("val_loss")
        cells = [str(row.get(place, "")) for place in places]
        cells += [_figure("{:g}", row.get(name)) for name in PUBLISHED_TIMES]
        cells += [_figure("{:.2f}", speedup), _figure("{:g}", row.get("speedup"))]
        cells.append(_figure("{:.0%}", speedup and speedup / row["devices"]))
        cells += [_figure("{:.2%}", row.get(name)) for name in ("accuracy", "best_accuracy")]
        cells.append(f"{losses[0]:.3f} to {losses[-1]:.3f} in {len(losses)} epochs" if losses else "")
        lines.append(cells)
    return Grid(f"published: {block.definition['published']['source']}", *without_empty(head, lines))


def _figure(form: str, value: float | None) -> str:
    return form.format(value) if value else ""


@dataclass(frozen=True)
class Fitted:
    """A grid that is ready to be drawn. Each head may have several lines.

    `equal` has the name and the value of each column that was dropped because all its cells are equal. `left_out` names
    the other dropped columns.
    """

    head: list[list[str]]
    lines: list[list[str]]
    gap: int = 3
    footnotes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    equal: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The heads. Each is joined into one line."""
        return [" ".join(head) for head in self.head]


def fit(grid: Grid, columns: int, width: Callable[[str], int] = len) -> Fitted:
    """Make a grid at most `columns` wide, with as few changes as possible. Returns the narrowest form if none fits."""
    form = _as_it_is(grid)
    steps: list[Callable[[Fitted], Fitted]] = [
        lambda form: replace(form, gap=2),
        _with_folded_heads,
        _with_footnotes,
        _without_equal,
        lambda form: replace(form, head=[[SHORT.get(line, line) for line in head] for head in form.head]),
        *(partial(_without, name) for name in DISPENSABLE),
    ]
    for narrowed in steps:
        if _width(form, width) <= columns:
            break
        form = narrowed(form)
    return form


def with_footnotes(grid: Grid) -> Fitted:
    """Move long reasons in the last column to footnotes."""
    return _with_footnotes(_as_it_is(grid))


def _as_it_is(grid: Grid) -> Fitted:
    return Fitted([[name] for name in grid.head], grid.lines)


def _width(form: Fitted, width: Callable[[str], int]) -> int:
    columns = zip(*form.lines, strict=True) if form.lines else [()] * len(form.head)
    widest = [max(map(width, [*head, *cells])) for head, cells in zip(form.head, columns, strict=True)]
    return sum(widest) + form.gap * (len(widest) - 1)


def _with_folded_heads(form: Fitted) -> Fitted:
    heads = []
    for place, name in enumerate(form.names):
        room = max((len(line[place]) for line in form.lines), default=1) or 1
        words = textwrap.wrap(name.replace("_", "_ "), room, break_long_words=False, break_on_hyphens=False)
        heads.append([word.replace("_ ", "_") for word in words or [""]])
    return replace(form, head=heads)


def _with_footnotes(form: Fitted) -> Fitted:
    if not form.head or form.names[-1] != CLAIMED:
        return form
    long = dict.fromkeys(line[-1] for line in form.lines if len(line[-1]) > _LONGEST_INLINE)
    numbers = {reason: number for number, reason in enumerate(long, start=1)}
    lines = [[*line[:-1], f"no ({numbers[line[-1]]})"] if line[-1] in numbers else line for line in form.lines]
    return replace(form, lines=lines, footnotes=tuple(f"({number}) {reason}" for reason, number in numbers.items()))


def _without_equal(form: Fitted) -> Fitted:
    inner = range(1, len(form.head) - 1) if len(form.lines) > 1 else ()
    equal = {place for place in inner if len({line[place] for line in form.lines}) == 1}
    said = tuple(f"{form.names[place]} {form.lines[0][place]}" for place in sorted(equal))
    head, lines = only([place for place in range(len(form.head)) if place not in equal], form.head, form.lines)
    return replace(form, head=head, lines=lines, equal=said)


def _without(name: str, form: Fitted) -> Fitted:
    kept = [place for place, head in enumerate(form.names) if head not in (name, SHORT.get(name))]
    head, lines = only(kept, form.head, form.lines)
    left_out = form.left_out if len(kept) == len(form.head) else (*form.left_out, name)
    return replace(form, head=head, lines=lines, left_out=left_out)
