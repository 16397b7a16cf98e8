"""Whether a run completed, failed, or whether its log ends before the run does: from the facts of the log alone."""

import itertools
from typing import NamedTuple

from runner.core.text import one_line
from runner.logs.endings import Tail
from runner.logs.facts import Facts, Progress


class Status(NamedTuple):
    """A status, None if the log does not say; the line that shows it; and notes."""

    status: str | None
    line: int | None = None
    notes: tuple[str, ...] = ()


def status_of(facts: Facts, tail: Tail) -> Status:
    """Judge a log."""
    if judged := _mlperf(facts) or _of_its_container(facts):
        return judged
    trained = facts.progress.line if facts.progress else 0
    completed = _completed(facts, trained)
    failure = facts.ends.failure()
    notes: tuple[str, ...] = ()
    if failure:
        notes = (f"line {failure.line} says: {failure.text}; the run went on",)
        went_on = max(trained, facts.evaluated, facts.stated(), completed + 1)
        if facts.ends.failed_containers or failure.line >= went_on:
            notes = (f"line {failure.line} says: {failure.text}",)
            if completed and failure.value == "trouble":
                notes = (f"line {failure.line}, after the end of the training, says: {failure.text}",)
            elif not tail.goes_on_after(failure.line):
                return Status("failed", failure.line, notes)
    if completed:
        return Status("completed", completed, notes)
    if "run_start" in facts.runs:
        return Status("truncated", facts.run_lines["run_start"], (*notes, "run_start has no run_stop"))
    if tail.unfinished:
        return Status("truncated", tail.unfinished, notes)
    # A log that says nothing about its end is judged by how far it got.
    begun = min((seen[facts.highest] for seen in facts.epochs.values() if facts.highest in seen), default=0)
    ended = _ended(facts, trained, begun)
    status = {None: None, True: "completed", False: "truncated"}[ended]
    return Status(status, max(facts.evaluated, trained, 0 if ended is None else begun) or None, notes)


def _of_its_container(facts: Facts) -> Status | None:
    """Judge by the container that failed, where containers stand one after the other and it said nothing else below."""
    failure = facts.ends.failure()
    name = facts.containers.of(failure.line) if failure else None
    if failure is None or name is None or facts.containers.went_on(name, failure.line):
        return None
    note = f"line {failure.line} says: {failure.text}"
    if not facts.ends.completed:
        return Status("failed", failure.line, (note,))
    order = "containers that stand one after the other do not say which was last"
    return Status(None, failure.line, (note, f"other lines say that a run completed, and {order}"))


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
    # Some progress bars are shown again, full, after what a program says at its end.
    is_full = facts.progress and facts.progress.done is not None and facts.progress.done == facts.progress.total
    return line if line >= trained or is_full else 0


def _reached(facts: Facts) -> bool | None:
    """Return whether the training got to the last epoch or step that is declared; None if none is, or it is not sure.

    Of epochs that begin with 0, the last one of `Epoch 3/4` may be 3 or 4.
    """
    declared = facts.declared_epochs()
    if steps := _steps(facts.progress):
        return steps[0] >= steps[1]
    if declared is None or facts.highest is None:
        return None
    seen = facts.epochs[False] or facts.epochs[True]
    resumes = facts.lowest is not None and facts.lowest > 1  # and may count from 0
    if facts.highest < declared.value <= facts.highest + max(resumes, _stride(sorted(seen))):
        return None
    if 0 not in seen:
        return bool(facts.highest >= declared.value)
    if facts.highest == declared.value - 1 and declared.line in seen.values():
        return None
    return bool(facts.highest >= declared.value - 1)


def _stride(epochs: list[float]) -> float:
    """Return how many epochs lie between two that are printed, if that is always more than one; 0 if not."""
    gaps = {after - before for before, after in itertools.pairwise(epochs)}
    return min(gaps) if len(gaps) == 1 and len(epochs[1:-1]) and min(gaps) > 1 else 0


def _steps(progress: Progress | None) -> tuple[int, int] | None:
    """Return the step and how many there are, where the training counts those of the whole run and no epochs."""
    if progress is None or progress.epoch is not None or progress.step is None or progress.steps is None:
        return None
    return progress.step, progress.steps


def _mlperf(facts: Facts) -> Status | None:
    """Judge by run_stop, where an MLPerf log has one."""
    stops = facts.runs.get("run_stop")
    if not stops:
        return None
    line, last = facts.run_lines["run_stop"], facts.run_lines.get("last run_start", 0)
    if last > line:
        return Status("truncated", last, ("another run_start has no run_stop",))
    words = [stop.metadata.get("status") for stop in stops]
    bad = next((word for word in words if word not in (None, "success")), None)
    if bad is not None:
        return Status("failed", line, (f"run_stop says {one_line(repr(bad), 60)}",))
    return Status("completed", line, () if "success" in words else ("run_stop has no status",))


def _ended(facts: Facts, trained: int, begun: int) -> bool | None:
    """Return whether the training reached its declared end; None if nothing shows it."""
    progress, reached = facts.progress, _reached(facts)
    went_on = max(facts.evaluated, trained)
    if 0 < went_on < begun:
        return None if facts.named_after and reached is not False else False
    if reached is False:
        return None if facts.passed == facts.highest != facts.lowest else False
    if not went_on or progress is None or _steps(progress):
        return reached if went_on else None
    return _ended_epoch(facts, progress, reached=reached)


def _ended_epoch(facts: Facts, progress: Progress, *, reached: bool | None) -> bool | None:
    """Return whether the last epoch was seen to end, too: by its last place, or by what a program says after it."""
    is_last = max(facts.evaluated, facts.stated()) < progress.line
    if progress.done is None or not progress.total:
        return None if facts.has_steps or (is_last and facts.evaluated) else reached
    widest = max(progress.total - facts.stride, 1) if facts.widest is None else facts.widest
    if progress.done < widest:
        return False if facts.evaluated < progress.line else None
    return None if is_last and (facts.evaluated or progress.done < progress.total) else reached
