"""A Grid for a terminal of some width: what is long moves below the table before anything is wrapped."""

import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from runner.report.columns import CLAIMED, DISPENSABLE, SHORT
from runner.report.table import Grid

_LONGEST_INLINE = len("the baseline")
_DOTTED_NAME = re.compile(r"[^\W\d]\w*\.[^\W\d]\w*")


@dataclass(frozen=True)
class Fitted:
    """A grid as it is drawn: heads of several lines, notes, the columns left out, and those with one value."""

    head: list[list[str]]
    lines: list[list[str]]
    gap: int = 3
    footnotes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    equal: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The heads in one line each."""
        return [" ".join(head) for head in self.head]


def fit(grid: Grid, columns: int, width: Callable[[str], int] = len) -> Fitted:
    """Return the grid as it fits a terminal with the least changes; the most narrow form if none fits."""
    form = _as_it_is(grid)
    steps: list[Callable[[Fitted], Fitted]] = [
        lambda form: replace(form, gap=2),
        _with_folded_heads,
        _without_common_prefixes,
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
    """Move the long reasons of a grid below it, and change nothing else."""
    return _with_footnotes(_as_it_is(grid))


def _as_it_is(grid: Grid) -> Fitted:
    return Fitted([[name] for name in grid.head], grid.lines)


def _width(form: Fitted, width: Callable[[str], int]) -> int:
    columns = zip(*form.lines, strict=True) if form.lines else [()] * len(form.head)
    widest = [max(map(width, [*head, *cells])) for head, cells in zip(form.head, columns, strict=True)]
    return sum(widest) + form.gap * (len(widest) - 1)


def _with_folded_heads(form: Fitted) -> Fitted:
    """Break heads between words where their column is narrower."""
    heads = []
    for place, name in enumerate(form.names):
        room = max((len(line[place]) for line in form.lines), default=1) or 1
        words = textwrap.wrap(name.replace("_", "_ "), room, break_long_words=False, break_on_hyphens=False)
        heads.append([word.replace("_ ", "_") for word in words or [""]])
    return replace(form, head=heads)


def _without_common_prefixes(form: Fitted) -> Fitted:
    """Move a prefix such as `mnist.`, which all cells of a column share, into its head."""
    head, lines = list(form.head), [list(line) for line in form.lines]
    for place in range(len(head)):
        words = {line[place] for line in lines}
        prefixes = {word.partition(".")[0] for word in words if word.isascii()}
        if len(words) < 2 or len(prefixes) != 1 or not all(map(_DOTTED_NAME.fullmatch, words)):
            continue
        [prefix] = prefixes
        head[place] = [*head[place], f"{prefix}."]
        for line in lines:
            line[place] = line[place].removeprefix(f"{prefix}.")
    return replace(form, head=head, lines=lines)


def _with_footnotes(form: Fitted) -> Fitted:
    """Move long reasons below the table; equal ones are one footnote."""
    if not form.head or form.names[-1] != CLAIMED:
        return form
    long = dict.fromkeys(line[-1] for line in form.lines if len(line[-1]) > _LONGEST_INLINE)
    numbers = {reason: number for number, reason in enumerate(long, start=1)}
    lines = [[*line[:-1], f"no ({numbers[line[-1]]})"] if line[-1] in numbers else line for line in form.lines]
    return replace(form, lines=lines, footnotes=tuple(f"({number}) {reason}" for reason, number in numbers.items()))


def _without_equal(form: Fitted) -> Fitted:
    """Say once above what is the same in every row, but for the first column and the last."""
    inner = range(1, len(form.head) - 1) if len(form.lines) > 1 else ()
    equal = {place for place in inner if len({line[place] for line in form.lines}) == 1}
    keep = [place for place in range(len(form.head)) if place not in equal]
    said = tuple(f"{form.names[place]} {form.lines[0][place]}" for place in sorted(equal))
    lines = [[line[place] for place in keep] for line in form.lines]
    return replace(form, head=[form.head[place] for place in keep], lines=lines, equal=said)


def _without(name: str, form: Fitted) -> Fitted:
    short = {name, SHORT.get(name, name)}
    kept = [place for place, head in enumerate(form.names) if head not in short]
    if len(kept) == len(form.head):
        return form
    head, lines = [form.head[place] for place in kept], [[line[place] for place in kept] for line in form.lines]
    return replace(form, head=head, lines=lines, left_out=(*form.left_out, name))
