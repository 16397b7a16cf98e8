"""Check numbers from outside (an event line, a pod's annotation): an invalid number becomes None."""

import math
from typing import Any

LARGEST_WHOLE = 2**63 - 1
"""The largest whole number that JSON readers, SQLite and msgpack all carry."""
LARGEST = 1e18
"""The upper bound of measured figures: seconds, bytes, samples per second."""
SMALLEST = 1e-12
"""The lower bound of measured figures above zero."""
_MAY_HOLD = (float, dict, list, tuple)
"""Types that may be or contain a float."""


def number(value: object, least: float = -LARGEST, most: float = LARGEST) -> float | None:
    """Return a value if it is a finite number within bounds, else None. An int stays an int."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
        return None  # NaN compares false with everything
    return value


def positive(value: object) -> float | None:
    """Return a value as a float if it is a possible measurement above zero, else None."""
    found = number(value, SMALLEST)
    return None if found is None else float(found)


def whole(value: object, least: int = 0, most: int = LARGEST_WHOLE) -> int | None:
    """Return a value if it is an int within bounds, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most else None


def spell_non_finite(value: Any) -> Any:
    """Return a copy of a value in which NaN and the infinities, which JSON lacks, are "nan", "inf" and "-inf".

    If all three became null, runs with different values would share a row of the table.
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
