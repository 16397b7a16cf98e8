"""What may be printed of a ratio of two times or throughputs, and what a number was computed from, in words.

A ratio may be printed itself, per process, of scaled work, or as a change.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from runner.tools.audit.columns import Column
from runner.tools.audit.counts import Processes, process_counts
from runner.tools.audit.quantities import Quantity, plain
from runner.tools.audit.roles import Role
from runner.tools.audit.spans import ONE, Ratios, Span, divided, inverse, negative, plus, ratio, scaled

_PER_DEVICE = re.compile("/(?:gpu|device|卡|core)|per[ _-]gpu|per (?:device|core)|单卡|每卡")
_LESS = ("time", "latency", "时间", "耗时", "reduc", "降低", "减少", "缩短", "节省", "saving", "saved")
_WEIGHTS = (Role.BATCH, Role.SAMPLES, Role.OTHER, Role.UNKNOWN, Role.TOTAL)
_MOST_WEIGHTS = 4
_SCALED = 6
_WEIGHED = 9


@dataclass(frozen=True)
class Context:
    """What a derived column of a table is computed from."""

    columns: Sequence[Column]
    processes: Processes
    weights: tuple[Column, ...] = ()

    def of(self, *roles: Role) -> list[Column]:
        """Return the columns of some roles."""
        return [column for column in self.columns if column.role in roles]


def says_processes(context: Context) -> bool:
    """Return whether a column counts processes by a word, not only by `n`, which may be the size of a problem."""
    return any(column.role is Role.COUNT and len(plain(column.heading).strip("# ")) > 1 for column in context.columns)


def context_of(columns: Sequence[Column]) -> Context:
    """Return the columns of a table with its processes and with what else may scale the work of its rows."""
    weights = [column for column in columns if column.role in _WEIGHTS and not column.inner]
    weights = [column for column in weights if all(not value or value.value > 0 for value in column.values)]
    return Context(columns, process_counts(columns), tuple(weights[:_MOST_WEIGHTS]))


@dataclass(frozen=True)
class Shape:
    """The numbers that may be printed; in `formula`, {r} is the ratio and {i} one divided by it."""

    values: Ratios
    rank: int
    formula: str
    note: str = ""


def per_device(column: Column) -> bool:
    """Return whether a column says that its numbers are those of one device."""
    return bool(_PER_DEVICE.search(plain(column.heading).lower()))


def shapes(
    column: Column, base: Column, ratios: Ratios, bases: Sequence[int | None], context: Context
) -> Iterator[Shape]:
    """Yield what a column may print of the ratios of its rows to their baselines, the plainest first."""
    if column.role is Role.EFFICIENCY:
        yield from _efficiencies(column, base, ratios, bases, context)
    elif column.role is Role.CHANGE:
        yield from changes(column, ratios)
    elif column.role is Role.SLOWDOWN:
        unit, sign = _unit(column)
        yield Shape(scaled(inverse(ratios), unit), 0, f"{sign}{{i}}")
        yield Shape(scaled(ratios, unit), 10, f"{sign}{{r}}")
    elif column.percent:
        yield from changes(column, ratios)
    else:
        yield from _speedups(ratios, bases, context)


def _speedups(ratios: Ratios, bases: Sequence[int | None], context: Context) -> Iterator[Shape]:
    yield Shape(ratios, 0, "{r}")
    for place, counts in enumerate(context.processes.vectors):
        rank = _SCALED + 2 * place
        fewest = min((count for count in counts if count), default=0.0)
        firsts = [counts[other] if other is not None else None for other in bases]
        own = [first if first == fewest > 1 else None for first in firsts]
        more = _relative(counts, bases)
        yield Shape(scaled(ratios, more), rank, "{r} * p / p0", "the work grows with the processes")
        yield Shape(scaled(ratios, own), rank + 1, "{r} * p0", "the baseline counts as its number of processes")
        yield Shape(divided(ratios, more), rank + 6, "{r} / (p / p0)", "per process")
    yield from _weighed(ratios, bases, context, 1.0, "")
    yield Shape(inverse(ratios), 14, "{i}", "the share of the time, not of the throughput")
    yield Shape(plus(ratios, -1.0), 15, "{r} - 1", "how much faster")


def _efficiencies(
    column: Column, base: Column, ratios: Ratios, bases: Sequence[int | None], context: Context
) -> Iterator[Shape]:
    unit, sign = _unit(column)
    single = per_device(base) and base.role is Role.RATE
    weak = Shape(scaled(ratios, unit), 1 if single else 5, f"{sign}{{r}}", "weak scaling")
    for place, counts in enumerate(context.processes.vectors):
        rank = 2 * place + (4 if single else 0)
        more = _relative(counts, bases)
        note = "per process" if base.role is Role.RATE else "strong scaling"
        yield Shape(scaled(divided(ratios, more), unit), rank, f"{sign}{{r}} / (p / p0)", note)
        yield Shape(scaled(divided(ratios, counts), unit), rank + 2, f"{sign}{{r}} / p", note)
        for weight in context.weights:
            work = scaled(ratios, _relative(_numbers(weight), bases))
            of_weight = f"the work is that of {weight.heading}"
            formula = f"{sign}{{r}} * w / w0 / (p / p0)"
            yield Shape(scaled(divided(work, more), unit), rank + _WEIGHED, formula, of_weight)
    yield weak
    yield from _weighed(ratios, bases, context, unit, sign)


def _weighed(ratios: Ratios, bases: Sequence[int | None], context: Context, unit: float, sign: str) -> Iterator[Shape]:
    """Yield ratios times, or divided by, what another column says: a batch, epochs, or a price."""
    for place, weight in enumerate(context.weights):
        more = _relative(_numbers(weight), bases)
        note = f"w is {weight.heading}"
        yield Shape(scaled(scaled(ratios, more), unit), _WEIGHED + place, f"{sign}{{r}} * w / w0", note)
        yield Shape(scaled(divided(ratios, more), unit), _WEIGHED + place, f"{sign}{{r}} / (w / w0)", note)


def changes(column: Column, ratios: Ratios) -> Iterator[Shape]:
    """Yield a ratio as a change: by how much faster, less time, or more time; of speed-ups in percent also itself."""
    units = [_unit(column)] if column.percent else [(1.0, ""), (100.0, "100 * ")]
    if column.role is Role.SPEEDUP:
        units = [(100.0, "100 * ")]
    words = plain(column.heading).lower()
    time = any(word in words for word in _LESS)
    for place, (unit, sign) in enumerate(units):
        speed = scaled(plus(ratios, -1.0), unit)
        less = scaled(negative(plus(inverse(ratios), -1.0)), unit)
        gain = Shape(speed, place + (2 if time else 0), f"{sign}({{r}} - 1)", "faster by throughput")
        loss = Shape(less, place + (0 if time else 1), f"{sign}(1 - {{i}})", "less time, not more throughput")
        yield from (loss, gain) if time else (gain, loss)
        yield Shape(scaled(plus(inverse(ratios), -1.0), unit), place + 3, f"{sign}({{i}} - 1)", "a change of the time")
        yield Shape(negative(speed), place + 4, f"{sign}(1 - {{r}})", "less")
        rank = 0 if column.role is Role.SPEEDUP else 4
        yield Shape(scaled(ratios, unit), place + rank, f"{sign}{{r}}", "a ratio in percent" if unit > 1 else "")


def _unit(column: Column) -> tuple[float, str]:
    return column.unit, "100 * " if column.percent else ""


def _numbers(column: Column) -> list[float | None]:
    return [value.value if value and value.value > 0 else None for value in column.values]


def _relative(counts: Sequence[float | None], bases: Sequence[int | None]) -> list[float | None]:
    """Return how many times the processes, or the work, of its baseline each row has."""
    own = [counts[base] if base is not None else None for base in bases]
    return [mine / its if mine and its else None for mine, its in zip(counts, own, strict=True)]


def ratios_over(base: Column, bases: Sequence[int | None]) -> Ratios:
    """Return how many times as fast as its baseline each row is."""
    ratios: Ratios = []
    for row, other in enumerate(bases):
        if other is None or base.values[row] is None:
            ratios.append(None)
        elif other == row:
            ratios.append(ONE)
        else:
            above, below = (other, row) if base.role is Role.TIME else (row, other)
            found = ratio(base.spans[above], base.spans[below])
            ratios.append(_known(base.values[row], base.values[other], found))
    return ratios


def ratios_beside(above: Column, below: Column) -> Ratios:
    """Return the ratios of two columns, row by row."""
    pairs = zip(above.values, below.values, above.spans, below.spans, strict=True)
    return [_known(mine, its, ratio(up, down)) for mine, its, up, down in pairs]


def _known(mine: Quantity | None, its: Quantity | None, found: Span | None) -> Span | None:
    """Leave out the ratio of two things, as a time per step and one per epoch, and one that its numbers leave open.

    From the ratio of 2 and 3, nearly everything follows.
    """
    if mine is None or its is None or found is None or found.high - found.low > found.middle / 2:
        return None
    return found if mine.per == its.per or (mine.kind != "time" and not (mine.per and its.per)) else None


@dataclass(frozen=True)
class Formula:
    """What a row was computed from, in words: of `base`, or of `base` beside another column in its own row."""

    base: Column
    bases: tuple[int | None, ...]
    shape: str
    beside: Column | None = None

    def __call__(self, row: int) -> str:
        """Return the words for a row."""
        other = row if self.beside else self.bases[row]
        if other is None:
            return ""
        first, second = word(self.base, row), word(self.beside or self.base, other)
        words = self.shape.replace("{d}", f"{first} - {second}")
        if self.base.role is Role.TIME and not self.beside:
            first, second = second, first
        return words.replace("{r}", f"{first} / {second}").replace("{i}", f"{second} / {first}")


def word(column: Column, row: int) -> str:
    """Return the number of a cell as it is printed."""
    return re.sub(r"\s*[\[(±].*", "", plain(column.cells[row].text)).strip("*_` ")[:40]
