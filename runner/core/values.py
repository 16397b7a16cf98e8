"""Values from outside (a record, an event line, a pod's annotation), checked once, where they enter.

A value that does not fit becomes None. Whoever asks says what fits: a type, a range, a length.
"""

import math
from typing import Any

LARGEST_WHOLE = 2**63 - 1
"""The largest whole number that JSON readers, SQLite and msgpack all carry."""
LARGEST = 1e18
"""No measured figure (seconds, bytes, samples per second) is larger."""
SMALLEST = 1e-12
"""No measured figure above zero is smaller."""
LONGEST_TEXT = 10_000
DEEPEST = 20
MOST_ITEMS = 10_000
_MAY_HOLD = (float, dict, list, tuple)
"""What may be or hold a float that JSON lacks."""


def number(value: object, least: float = -LARGEST, most: float = LARGEST) -> float | None:
    """Return a finite number between two bounds, else None; whole numbers stay whole."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
        return None  # NaN compares false with everything
    return value


def positive(value: object) -> float | None:
    """Return a measured figure above zero as a float, else None."""
    found = number(value, SMALLEST)
    return None if found is None else float(found)


def whole(value: object, least: int = 0, most: int = LARGEST_WHOLE) -> int | None:
    """Return a whole number between two bounds, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most else None


def text(value: object, most: int = LONGEST_TEXT) -> str | None:
    """Return a text of bounded length that UTF-8 can carry, else None."""
    if not isinstance(value, str) or len(value) > most:
        return None
    return value if value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value) else None


def spell_non_finite(value: Any) -> Any:
    """Return a copy of a value with the floats that JSON lacks as the words "nan", "inf" and "-inf".

    JSON would make null of all three, and runs with different values would share a row.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: spell_non_finite(item) if isinstance(item, _MAY_HOLD) else item for key, item in value.items()}
    return [spell_non_finite(item) for item in value] if isinstance(value, list | tuple) else value


def by_value(value: Any) -> Any:
    """Return a copy of a JSON value in which equal numbers are written alike: 1.0 becomes 1."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) <= LARGEST_WHOLE else value
    if isinstance(value, dict):
        return {key: by_value(item) for key, item in value.items()}
    return [by_value(item) for item in value] if isinstance(value, list | tuple) else value


def plain(value: object, unfit: list[str] | None = None, place: str = "", depth: int = 0) -> Any:
    """Return a copy of a JSON value with null in place of everything that does not fit.

    `unfit` takes the place of each value that was replaced, for example `args.lr`.
    """
    if value is None or isinstance(value, bool):
        return value
    found: Any = None
    if isinstance(value, int):
        found = whole(value, -LARGEST_WHOLE)
    elif isinstance(value, float):
        found = value if math.isfinite(value) else None
    elif isinstance(value, str):
        found = text(value)
    elif isinstance(value, list | tuple) and depth < DEEPEST and len(value) <= MOST_ITEMS:
        return [plain(item, unfit, f"{place}[{index}]", depth + 1) for index, item in enumerate(value)]
    elif isinstance(value, dict) and depth < DEEPEST and len(value) <= MOST_ITEMS:
        return {
            key: plain(item, unfit, f"{place}.{key}" if place else key, depth + 1)
            for key, item in value.items()
            if text(key) is not None
        }
    if found is None and unfit is not None:
        unfit.append(place)
    return found


def weight(value: object) -> int:
    """Estimate how many bytes of memory a JSON value takes."""
    if isinstance(value, str):
        return 60 + len(value)
    if isinstance(value, dict):
        return 200 + sum(150 + len(key) + weight(item) for key, item in value.items())
    return 80 + sum(8 + weight(item) for item in value) if isinstance(value, list) else 32
