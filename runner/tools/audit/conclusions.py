"""Whether a wrong number also turns the conclusion: faster or slower, above or below linear, or the best row."""

from __future__ import annotations

from runner.tools.audit.columns import Column
from runner.tools.audit.quantities import Quantity
from runner.tools.audit.readings import Reading
from runner.tools.audit.roles import Role
from runner.tools.audit.shapes import Context
from runner.tools.audit.spans import Span


def flips(column: Column, row: int, reading: Reading, context: Context) -> bool:
    """Return whether a wrong number turns a conclusion."""
    quantity, value = column.values[row], reading.values[row]
    if quantity is None or value is None:
        return False
    limits = [1.0] if column.role in (Role.SPEEDUP, Role.SLOWDOWN) else []
    if column.role is Role.CHANGE:
        limits = [0.0]
    elif column.role is Role.EFFICIENCY:
        limits = [100.0 if column.percent else 1.0]
    elif column.role is Role.SPEEDUP and column.percent:
        limits = [0.0] if "- 1" in reading.formula(row) else [100.0]
    elif column.role is Role.SPEEDUP and context.processes.first:
        counts = context.processes.first
        base = reading.bases[row] if reading.bases else None
        own, count = counts[base] if base is not None else 1.0, counts[row]
        limits += [count / own] if count and own else []
    return any(other_side(quantity, value, limit) for limit in limits) or _best_changes(column, row, reading)


def other_side(quantity: Quantity | None, value: Span, limit: float) -> bool:
    """Return whether a limit lies between what is printed and what follows."""
    return quantity is not None and ((quantity.low > limit > value.high) or (quantity.high < limit < value.low))


def _best_changes(column: Column, row: int, reading: Reading) -> bool:
    """Return whether another row is the best once this number is right, among the rows with the same baseline."""
    bases = reading.bases or (None,) * len(column.values)
    mine = reading.values[row]
    others = [
        quantity
        for other, quantity in enumerate(column.values)
        if quantity and other != row and bases[other] == bases[row] and other not in reading.same
    ]
    printed = column.values[row]
    if not others or not mine or not printed or column.role not in (Role.SPEEDUP, Role.RATE):
        return False
    first = max(others, key=lambda quantity: quantity.value)
    return (printed.low > first.high and mine.high < first.low) or (printed.high < first.low and mine.low > first.high)
