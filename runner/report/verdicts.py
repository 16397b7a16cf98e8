"""Verdicts -> rows of words and notes for a person, and plain values for a script."""

from typing import Any

from runner.report.cells import estimate
from runner.report.claims import taken_for_granted
from runner.report.formats import pipes
from runner.report.markup import markdown
from runner.report.repeats import MOST, POWER
from runner.report.rows import CellRuns, copies_note
from runner.report.statistics import DEFAULT
from runner.report.two_sides import FASTER, NOT_COMPARABLE, SLOWER, Verdict, exit_code


def to_rows(verdicts: list[Verdict]) -> list[tuple[str, ...]]:
    """Return a head and a row for each cell."""
    sides = [side for cell in verdicts for side in (cell.a, cell.b) if side]
    confidence = sides[0].confidence if sides else DEFAULT
    measures = {side.first.measure for side in sides}
    unit = measures.pop().replace("_", " ") if len(measures) == 1 else "seconds"
    heads = (f"{what} [{confidence}]" for what in (f"A {unit}", f"B {unit}", "B / A"))
    rows: list[tuple[str, ...]] = [("cell", "n", *heads, "verdict")]
    for cell in verdicts:
        counts = dict.fromkeys(str(len(side.complete)) if side else "0" for side in (cell.a, cell.b))
        times = (estimate(side.seconds if side else None) for side in (cell.a, cell.b))
        # A ratio has three decimals at least, because 1.004 is not 1.00.
        rows.append((cell.name, " and ".join(counts), *times, estimate(cell.ratio, least=3), cell.verdict))
    return rows


def to_markdown(a: str, b: str, verdicts: list[Verdict], detect: float) -> str:
    """Return a Markdown table with its sides above and its notes below, as a comment of a pull request."""
    notes = [f"- {markdown(note)}" for note in to_notes(verdicts, detect)]
    sides = f"A is {markdown(a)}, B is {markdown(b)}."
    return "\n".join([sides, "", *pipes(*to_rows(verdicts)), "", *notes]) + "\n"


def to_notes(verdicts: list[Verdict], detect: float) -> list[str]:
    """Return what a reader of the rows has to know: each reason, what is compared, and how many repeats it takes."""
    found = [f"{cell.name}: {cell.why}" for cell in verdicts if cell.why]
    found += [f"{cell.name}: {cell.on_both}" for cell in verdicts if cell.on_both]
    for cell in verdicts:
        if cell.a and cell.b and cell.verdict != NOT_COMPARABLE:
            found += [f"{cell.name}: {what}" for what in taken_for_granted([*cell.a.complete, *cell.b.complete])]
    clear = [cell for cell in verdicts if cell.verdict in (FASTER, SLOWER) and cell.small]
    found += [f"{cell.name}: {cell.verdict}, by less than {100 * detect:.3g}%" for cell in clear]
    tested = sum(cell.adjusted_p is not None for cell in verdicts)
    if tested > 1:
        found.append(f"{tested} cells are compared, so each verdict holds after Holm's correction")
    found += [f"between A and B: {what}" for what in dict.fromkeys(what for cell in verdicts for what in cell.differs)]
    for cell in verdicts:
        found += [*_runs(cell, "A", cell.a), *_runs(cell, "B", cell.b)]
    for cell in verdicts:
        if cell.ratio and cell.ratio.low is not None:
            needed = f"over {MOST:,}" if cell.proposed is None else f"{cell.proposed:,}"
            finds = f"--repeat {needed} finds a difference of {100 * detect:.3g}% in {POWER * 10:.0f} of 10 comparisons"
            found.append(f"{cell.name}: {finds}; there were {cell.repeats}")
    return found


def _runs(cell: Verdict, name: str, side: CellRuns | None) -> list[str]:
    """Return which runs of a side are not complete, and how many are copies or were disturbed."""
    if side is None:
        return []
    found = [
        f"{cell.name}: {name}: {run.status.replace('_', ' ')}: {run.reason or 'no reason known'} ({run.path})"
        for run in side.runs
        if run.status != "completed"
    ]
    if side.copies:
        found.append(f"{cell.name}: {name}: {copies_note(side.copies)}")
    disturbed = [run for run in side.runs if run.disturbed]
    if disturbed:
        first = f"{'; '.join(disturbed[0].disturbed)} ({disturbed[0].path})"
        found.append(f"{cell.name}: {name}: {len(disturbed)} of {len(side.runs)} runs disturbed, the first: {first}")
    return found


def to_plain(a: str, b: str, verdicts: list[Verdict], detect: float) -> dict[str, Any]:
    """Return everything as plain values; the names of the fields are a promise to other people's scripts."""
    return {
        "a": a,
        "b": b,
        "detect": detect,
        "exit_code": exit_code(verdicts),
        "cells": [
            {
                "cell": cell.name,
                "verdict": cell.verdict,
                "why": cell.why,
                "ratio": cell.ratio.value if cell.ratio else None,
                "ratio_low": cell.ratio.low if cell.ratio else None,
                "ratio_high": cell.ratio.high if cell.ratio else None,
                "p": cell.adjusted_p,
                "design": "pairs" if cell.in_pairs else "independent",
                "decided": cell.decided,
                "proposed_repeats": cell.proposed,
                "differs": list(cell.differs),
                "a": _side(cell.a),
                "b": _side(cell.b),
            }
            for cell in verdicts
        ],
        "notes": to_notes(verdicts, detect),
    }


def _side(side: CellRuns | None) -> dict[str, Any] | None:
    if side is None:
        return None
    return {
        "experiment": side.first.experiment,
        "layout": side.first.layout,
        "axes": side.first.axes,
        "measure": side.first.measure,
        "n": len(side.complete),
        "seconds": side.seconds.value if side.seconds else None,
        "points": [run.seconds for run in side.complete],
        "runs": [run.path for run in side.runs],
    }
