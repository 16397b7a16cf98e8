"""Whether the runs of two versions may be compared, and what differs between them that is compared."""

from __future__ import annotations

from runner.report.claims import differing, disturbed, same_differs, settings_differ, total_work_differs
from runner.report.learned import learned_differs
from runner.report.machines import machine_decides
from runner.report.rows import CellRuns

VERSIONS = ("code", "lock file", "image", "torch", "NCCL", "Python")
"""What versions may differ in: it is what is compared."""
CHOICES = (*VERSIONS, "program", "args", "threads per process")
"""What may differ besides where both sides were made for the comparison, for example from two definitions."""


def not_comparable(a: CellRuns, b: CellRuns, *, made: bool) -> str | None:
    """Return why nothing can be said of two sides, with the field that differs and its values; None if it can.

    Args:
        a: the runs of side A.
        b: the runs of side B.
        made: whether they were made for the comparison, in turn: then what disturbs the machine is in both.
    """
    runs = [*a.complete, *b.complete]
    may_differ = CHOICES if made else VERSIONS
    doubtful = (f"doubtful: {run.doubts[0]} ({run.path})" for run in (*a.runs, *b.runs) if run.doubts)
    return (
        next(doubtful, None)
        or _incomplete(a, b)
        or _within(a, b)
        or "; ".join(settings_differ(runs, may_differ))
        or differing(runs, may_differ)
        or machine_decides(b, a, ("B", "A"))
        or total_work_differs(runs)
        or learned_differs(b, a)
        or (None if made else disturbed(runs))
    )


def differences(a: CellRuns, b: CellRuns) -> list[str]:
    """Return what differs between the sides, each with the value of A and that of B; it is what is compared."""
    runs = [a.complete[0], b.complete[0]]
    return [*settings_differ(runs), *(what for _, what in same_differs(runs))]


def _incomplete(a: CellRuns, b: CellRuns) -> str | None:
    for name, side in (("A", a), ("B", b)):
        if bad := len(side.runs) - len(side.complete):
            return f"{bad} of {len(side.runs)} runs of {name} not complete"
    return None


def _within(a: CellRuns, b: CellRuns) -> str | None:
    for name, side in (("A", a), ("B", b)):
        if wrong := differing(list(side.complete)):
            return f"within {name}: {wrong}"
    return None
