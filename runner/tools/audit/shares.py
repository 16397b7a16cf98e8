"""Accuracies as what they are: a whole number of samples, k, of all N."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from runner.tools.audit.quantities import Quantity, plain, read
from runner.tools.audit.spans import CONSISTENT, INCONSISTENT, Span, grade

LARGEST = 100_000_000
_SHARP = 1.1e-5
"""The rounding of an accuracy that may show its number of samples: three decimals of a percentage."""
_PAIR = r"(?P<k>\d[\d,]*)\s*(?:/|of|out of|中|／)\s*(?P<n>\d[\d,]*)"
_SHARE = r"(?P<share>\d{1,3}(?:[.,]\d+)?)\s*%"
_IN_CELL = (
    re.compile(rf"{_SHARE}\s*[(\[]\s*{_PAIR}\s*[)\]]", re.IGNORECASE),
    re.compile(rf"(?<![\d.,/]){_PAIR}\s*(?:=|≈|[(\[])\s*{_SHARE}", re.IGNORECASE),
)
_COUNTED = re.compile(rf"^{_SHARE}\s*\(\s*(?P<k>\d[\d,]*)\s*\)$")
_THING = r"(?:samples?|images?|sentences?|examples?|instances?|reviews?|questions?|documents?|pictures?|条|张|个|份|例)"
_SAID = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        (
            r"(\d[\d,]*)\s*(?:个|条|张)?\s*(?:held[- ]out |unseen )?"
            rf"(?:test|validation|eval(?:uation)?|dev|测试|验证)\w*[- ]?{_THING}"
        ),
        (
            r"(?:test|validation|evaluation|dev)[- ]?(?:set|split|data)?\w*\s*(?:\(|:|=|of|has|with|contains|size|is)+"
            rf"\s*(?:=|of|:|is)?\s*(\d[\d,]*)\s*(?={_THING}|\)|,|\.|;|$)"
        ),
        rf"(?:测试集|验证集|测试样本|测试数据)\D{{0,8}}?(\d[\d,]*)\s*(?={_THING}|，|。|）|\)|,|$)",
        r"(?<![A-Za-z])n\s*=\s*(\d[\d,]*)",
        rf"\bof (?:the )?(\d[\d,]*) (?:\w+ )?{_THING}",
    )
)


@dataclass(frozen=True)
class Share:
    """A percentage printed with the counts behind it; `at` is where it begins in the text."""

    printed: Quantity
    correct: int
    total: int
    at: int = 0


def shares_in(text: str, total: int | None = None) -> list[Share]:
    """Find percentages with their counts, `98.7% (1053 of 1067)`; `total` is that of a cell without one."""
    text = plain(text)
    result = []
    for pattern in _IN_CELL:
        for found in pattern.finditer(text):
            share = read(found["share"].replace(",", ".") + "%")
            counts = whole(found["k"]), whole(found["n"])
            if share and 0 <= counts[0] <= counts[1] <= LARGEST and counts[1]:
                result.append(Share(share, *counts, found.start()))
    counted = _COUNTED.match(text)
    if counted and total:
        share = read(counted["share"].replace(",", ".") + "%")
        if share and whole(counted["k"]) <= total:
            result.append(Share(share, whole(counted["k"]), total))
    return result


def whole(text: str) -> int:
    """Read an integer with or without separators."""
    digits = re.sub(r"\D", "", text)
    return int(digits) if 0 < len(digits) < 12 else LARGEST + 1  # noqa: PLR2004


def said_totals(text: str) -> list[int]:
    """Return the numbers of test samples that a text states."""
    found = [whole(match[1]) for pattern in _SAID for match in pattern.finditer(plain(text[:20_000]))]
    return [total for total in dict.fromkeys(found) if 10 <= total <= LARGEST]  # noqa: PLR2004


def of_total(printed: Quantity, total: int, unit: float) -> tuple[str, Span, int]:
    """Grade a printed share by the nearest k / total; return the grade, that share in the printed unit, and k."""
    near = printed.number / unit * total
    results = []
    for count in {math.floor(near), math.ceil(near), math.ceil(near) + 1}:
        if 0 <= count <= total:
            value = count / total * unit
            found = grade(printed, Span(value, value, value))
            results.append(
                ((CONSISTENT, "truncated", INCONSISTENT).index(found), abs(value - printed.number), found, value, count)
            )
    if not results:
        value = unit * (near > 0)
        return INCONSISTENT, Span(value, value, value), total
    _, _, found, value, count = min(results)
    return found, Span(value, value, value), count


def fits(printed: Quantity, total: int, unit: float) -> int | None:
    """Return k if k / total rounds to what is printed."""
    low, high = printed.low / unit * total, printed.high / unit * total
    count = math.ceil(low - 1e-9 * total)
    return count if 0 <= count <= high + 1e-9 * total else None


def smallest_total(printed: Quantity, unit: float, most: int) -> int | None:
    """Return the smallest N of which the printed share is a whole number."""
    return next((total for total in range(1, most + 1) if fits(printed, total, unit) is not None), None)


def padded(first: Quantity, second: Quantity, unit: float, processes: int) -> tuple[int, int] | None:
    """Return N and N' if the second share counts samples twice: N' is N made divisible by the processes.

    That needs digits enough: two accuracies without such a bond make a pair by chance in about 1 of 1,000 cases.
    """
    width = [(one.high - one.low) / unit for one in (first, second)]
    if min(width) <= 0 or max(width) > _SHARP or processes < 2:  # noqa: PLR2004
        return None
    most = int(min(20_000, (0.003 / (width[0] * width[1])) ** (1 / 3)))
    for total in range(2, most + 1):
        if fits(first, total, unit) is None:
            continue
        if fits(second, total, unit) is not None:
            return None
        larger = -(-total // processes) * processes
        if larger != total and fits(second, larger, unit) is not None:
            return total, larger
    return None
