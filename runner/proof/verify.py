"""Runs -> Verdicts, to level 1: what can be said of a record without running anything again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.core.text import one_line
from runner.proof.level import Verdict
from runner.proof.whole import check_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from runner.proof.inputs import Inputs


def verify(paths: Iterable[Path], inputs: Inputs | None) -> Iterator[Verdict]:
    """Say of each run which level it reaches; without inputs to compare with, only whether its record is whole."""
    for path in paths:
        record, faults = check_whole(path)
        verdict = Verdict(one_line(path))
        if faults or record is None:
            verdict.stopped = faults
        else:
            verdict.level = 0
            if record.status != "completed":
                verdict.notes.append(f"the run is {record.status}: {one_line(record.reason or '', 200)}")
            if inputs is not None:
                verdict.checks = inputs.check(record, path)
                verdict.stopped = [str(check) for check in verdict.checks if check.same is False]
                verdict.level = 0 if verdict.stopped else 1
        yield verdict
