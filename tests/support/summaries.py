"""Summaries of runs that never were, and the rows that they make."""

from collections.abc import Sequence
from typing import Any

import msgspec

from runner.report.compare import compare
from runner.report.rows import Block, Row
from runner.report.run_summary import RunSummary

SAME = {
    "image": "None",
    "code": "c",
    "data": "d",
    "torch": "2.3.1",
    "NCCL": "None",
    "Python": "3.11",
    "threads per process": "1",
}
_COUNT = iter(range(10**9))
ONE, TWO = (10.0, 10.1, 9.9), (6.0, 6.1, 5.9)


def run(seconds: float | None = 10.0, layout: str = "1x1", processes: int = 1, **changes: Any) -> RunSummary:
    number = next(_COUNT)
    values = {
        "path": f"tiny/run{number}",
        "experiment": "tiny",
        "target": "local",
        "status": "completed",
        "reason": None,
        "layout": layout,
        "axes": {},
        "program": "toys.ok",
        "args": {"epochs": 1},
        "scaling": "strong",
        "measure": "train_seconds",
        "device": "cpu",
        "started": f"2026-11-21T{number:09}",
        "repeat": 1,
        "definition_sha256": "d",
        "seconds": seconds,
        "processes": processes,
        "hardware": "Toy CPU, 8 cores",
        "heterogeneous": False,
        "cores": 8,
        "accuracy": 0.95,
        "best_accuracy": 0.96,
        "eval_samples": 1_000,
        "trained_samples": 1_000,
        "steps": 10,
        "global_batch_size": 100,
        "torch": "2.3.1",
        "same": SAME,
        "machines": [("m", "here")],
        "memory": [24e9, 24e9],
    }
    return RunSummary(**{**values, **changes})


def base(seconds: Sequence[float | None] = ONE, **changes: Any) -> list[RunSummary]:
    """The repeats of a cell, made in turn with those of all others."""
    return [run(value, **{"began": 1e12 * turn + 1e5 * next(_COUNT), **changes}) for turn, value in enumerate(seconds)]


def pair(seconds: Sequence[float | None] = TWO, **changes: Any) -> list[RunSummary]:
    return base(seconds, **{"layout": "1x2", "processes": 2, **changes})


def block(runs: list[RunSummary], definition: dict[str, Any] | None = None) -> Block:
    (found,) = compare(runs, lambda _: definition or {})
    return found


def row(runs: list[RunSummary], layout: str = "1x2") -> Row:
    (found,) = [row for row in block(runs).rows if row.first.layout == layout]
    return found


def changed(runs: list[RunSummary], **changes: Any) -> list[RunSummary]:
    """The same runs with the last one unlike the others."""
    return [*runs[:-1], msgspec.structs.replace(runs[-1], **changes)]
