"""Whether a run completed, failed, or whether its log ends before the run does: from the facts of the log alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from runner.core.text import one_line

if TYPE_CHECKING:
    from runner.records.foreign.facts import Facts, Progress


class Status(NamedTuple):
    """A status, None if the log does not say; the line that shows it; and notes."""

    status: str | None
    line: int | None = None
    notes: tuple[str, ...] = ()


def status_of(facts: Facts) -> Status:
    """Judge a log."""
    if stopped := _mlperf(facts):
        return stopped
    done, failed, trouble = (facts.said.get(word) for word in ("completed", "failed", "trouble"))
    trained = facts.progress.line if facts.progress else 0
    went_on = max(trained, facts.evaluated)
    completed = done.line if done and (done.line >= trained or _at_the_end(facts.progress)) else 0
    if failed and failed.line > completed:
        return Status("failed", failed.line, (f"line {failed.line} says: {failed.text}",))
    notes: tuple[str, ...] = ()
    if trouble:
        if trouble.line > max(went_on, completed):
            if not completed:
                return Status("failed", trouble.line, (f"line {trouble.line} says: {trouble.text}",))
            notes = (f"line {trouble.line}, after the end of the training, says: {trouble.text}",)
        else:
            notes = (f"line {trouble.line} says: {trouble.text}; the run went on",)
    if completed:
        return Status("completed", completed, notes)
    if "run_start" in facts.runs:
        return Status("truncated", facts.run_lines["run_start"], (*notes, "run_start has no run_stop"))
    status, line = _by_progress(facts, trained)
    return Status(status, line, notes)


def _at_the_end(progress: Progress | None) -> bool:
    """Whether a progress bar is full: some are shown again after what a program says at its end."""
    return progress is not None and progress.done is not None and progress.done == progress.total


def _mlperf(facts: Facts) -> Status | None:
    """Judge by run_stop, where an MLPerf log has one."""
    stops = facts.runs.get("run_stop")
    if not stops:
        return None
    line = facts.run_lines["run_stop"]
    words = [stop.metadata.get("status") for stop in stops]
    bad = next((word for word in words if word not in (None, "success")), None)
    if bad is not None:
        return Status("failed", line, (f"run_stop says {one_line(repr(bad), 60)}",))
    return Status("completed", line, () if "success" in words else ("run_stop has no status",))


def _by_progress(facts: Facts, trained: int) -> tuple[str | None, int | None]:
    """Judge a log that says nothing about its end by how far it got."""
    if facts.progress is None:
        return ("completed", facts.evaluated) if facts.evaluated else (None, None)
    ended = _ended(facts, facts.progress, trained)
    status = None if ended is None else "completed" if ended else "truncated"
    return status, max(facts.evaluated, trained)


def _ended(facts: Facts, progress: Progress, trained: int) -> bool | None:
    """Whether the training and what belongs after it were done; None if nothing shows it."""
    declared = facts.declared_epochs()
    epochs = [epoch for seen in facts.epochs.values() for epoch in seen]
    if progress.step is not None and progress.steps is not None and progress.epoch is None:
        return progress.step >= progress.steps
    if declared is not None and epochs and max(epochs) < declared.value - (0 in epochs):
        return False
    if facts.evaluated:
        return facts.evaluated >= trained
    if progress.done is None or not progress.total:
        return True if declared is not None and epochs else None
    return progress.done >= (facts.widest or max(progress.total - facts.stride, 1))
