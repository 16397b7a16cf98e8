"""How many processes or devices a row has: from columns of counts, or from the words of a label such as `DDP-2`."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from runner.tools.audit.columns import Column
from runner.tools.audit.quantities import MOST_DEVICES, devices, plain
from runner.tools.audit.roles import Role
from runner.tools.audit.tables import LONGEST_CELL

Counts = tuple["float | None", ...]
"""The number of processes of each row."""
_MOST_VECTORS = 8
_FEWEST = 2
"""Rows and numbers that make a vector of counts."""
_NUMBER_WORDS = """
1 one single serial sequential seq baseline, 2 two dual, 3 three, 4 four quad, 5 five, 6 six, 8 eight, 10 ten,
12 twelve, 16 sixteen, 32 thirty-two, 64 sixty-four
"""
_WORDS = {word: part.split()[0] for part in _NUMBER_WORDS.split(",") for word in part.split()[1:]}
_WORD = re.compile(rf"(?<![a-z])(?:{'|'.join(_WORDS)})(?![a-z])")


@dataclass(frozen=True)
class Processes:
    """What may be the number of processes of each row, the likeliest first; columns of counts say what is `said`."""

    vectors: tuple[Counts, ...]
    said: tuple[Counts, ...]

    @property
    def first(self) -> Counts:
        """Return the likeliest numbers that a column of counts says; none if there is no such column."""
        return next(iter(self.said), ())


def process_counts(columns: Sequence[Column]) -> Processes:
    """Return the counts of columns, and after them those that labels may mean."""
    said = tuple(_of_columns([column for column in columns if column.role is Role.COUNT])[: _MOST_VECTORS - 2])
    labels = [column for column in columns if column.role in (Role.LABEL, Role.COUNT) and not column.inner]
    read = [vector for column in labels for vector in _of_labels([cell.text for cell in column.cells])]
    return Processes(tuple(dict.fromkeys([*said, *read]))[:_MOST_VECTORS], said)


def _of_columns(named: Sequence[Column]) -> list[Counts]:
    """Return a total, nodes times processes, or a column alone."""
    numbers = [tuple(value.number if value else None for value in column.values) for column in named]
    headings = [plain(column.heading).lower() for column in named]

    def weight(place: int) -> int:
        total = any(word in headings[place] for word in ("world", "total", "layout", "process", "进程", "总"))
        nodes = any(word in headings[place] for word in ("node", "machine", "host", "节点", "机器", "设备数"))
        return 0 if total else 1 + nodes

    result = [numbers[place] for place in sorted(range(len(numbers)), key=weight)]
    for first in range(len(numbers)):
        for second in range(first + 1, min(len(numbers), 4)):
            pairs = zip(numbers[first], numbers[second], strict=True)
            product = tuple(left * right if left and right else None for left, right in pairs)
            per = any(word in headings[first] + headings[second] for word in ("per", "单机", "每", "/"))
            result.insert(0 if per else len(result), product)
    return list(dict.fromkeys(result))


def _of_labels(texts: Sequence[str]) -> Iterator[Counts]:
    """Read the numbers of labels in several ways: as a count with its word, or as any number of the label."""
    words = [_WORD.sub(lambda found: _WORDS[found[0]], plain(text[:LONGEST_CELL]).lower()) for text in texts]
    numbers = [[int(number) for number in re.findall(r"\d{1,6}", text)] for text in words]
    alone = [[int(number) for number in re.findall(r"(?<![\d.a-z])\d{1,6}(?![\d.])", text)] for text in words]
    ways: tuple[Callable[[int], float | None], ...] = (
        lambda row: devices(words[row]),
        lambda row: float(math.prod(alone[row])) if alone[row] else None,
        lambda row: float(numbers[row][-1]) if numbers[row] else None,
        lambda row: float(math.prod(numbers[row])) if numbers[row] else None,
        lambda row: float(numbers[row][0]) if numbers[row] else None,
    )
    for way in ways:
        vector = tuple(count if (count := way(row)) and 0 < count < MOST_DEVICES else None for row in range(len(words)))
        known = [count for count in vector if count]
        if len(known) >= max(_FEWEST, len(texts) / 2) and len(set(known)) >= _FEWEST:
            yield tuple(count or 1.0 for count in vector)
            yield vector
