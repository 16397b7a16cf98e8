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
    failed, trouble = (facts.ends.said.get(word) for word in ("failed", "trouble"))
    trained = facts.progress.line if facts.progress else 0
    went_on = max(trained, facts.evaluated)
    completed = _completed(facts, trained)
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


def _completed(facts: Facts, trained: int) -> int:
    """Return the last line that says that the run completed; 0 if none does.

    What may be said of an epoch counts only where all epochs were reached.
    """
    reached = _reached(facts)
    lines = [
        end.line
        for end in facts.ends.completed.values()
        if reached or not (facts.is_of_an_epoch(end) or (end.weak and reached is False))
    ]
    line = max(lines, default=0)
    return line if line >= trained or _at_the_end(facts.progress) else 0


def _reached(facts: Facts) -> bool | None:
    """Whether the training got to the last epoch or step that is declared; None if none is."""
    declared = facts.declared_epochs()
    if steps := _steps(facts.progress):
        return steps[0] >= steps[1]
    if declared is None or facts.highest is None:
        return None
    starts_at_zero = any(0 in seen for seen in facts.epochs.values())
    return bool(facts.highest >= declared.value - starts_at_zero)


def _steps(progress: Progress | None) -> tuple[int, int] | None:
    """Return the step and how many there are, where the training counts those of the whole run and no epochs."""
    if progress is None or progress.epoch is not None or progress.step is None or progress.steps is None:
        return None
    return progress.step, progress.steps


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
    begun = min((seen[facts.highest] for seen in facts.epochs.values() if facts.highest in seen), default=0)
    ended = _ended(facts, trained, begun)
    if ended is None:
        return None, max(facts.evaluated, trained) or None
    return "completed" if ended else "truncated", max(facts.evaluated, trained, begun)


def _ended(facts: Facts, trained: int, begun: int) -> bool | None:
    """Whether the training and what belongs after it were done; None if nothing shows it."""
    progress, reached = facts.progress, _reached(facts)
    went_on = max(facts.evaluated, trained)
    if reached is False or 0 < went_on < begun:
        return False
    if not went_on:
        return None
    if facts.evaluated and not _steps(progress):
        return facts.evaluated >= trained
    if progress is None or progress.done is None or not progress.total:
        return reached
    return progress.done >= (facts.widest or max(progress.total - facts.stride, 1))
