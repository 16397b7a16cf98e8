"""Whether a run completed, failed, or whether its log ends before the run does: from the facts of the log alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from runner.core.text import one_line

if TYPE_CHECKING:
    from runner.records.foreign.facts import Facts


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
    completed = done.line if done and done.line >= trained else 0
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
    progress, declared = facts.progress, facts.declared_epochs()
    epochs = [epoch for seen in facts.epochs.values() for epoch in seen]
    if progress is None:
        return ("completed", facts.evaluated) if facts.evaluated else (None, None)
    last = facts.evaluated if facts.evaluated > trained else trained
    if progress.step is not None and progress.steps is not None and progress.epoch is None:
        return ("completed" if progress.step >= progress.steps else "truncated"), last
    if declared is not None and epochs and max(epochs) < declared.value - (0 in epochs):
        return "truncated", last
    if facts.evaluated >= trained:
        return "completed", last
    if facts.evaluated:
        return "truncated", last
    if progress.done is None or not progress.total:
        reached = declared is not None and epochs and max(epochs) >= declared.value
        return ("completed" if reached else None), last
    ended = progress.done >= (facts.widest or max(progress.total - facts.stride, 1))
    return ("completed" if ended else "truncated"), last
