"""Whether a run completed or failed, as far as its log says so by itself."""

import re
from typing import NamedTuple

from runner.core.text import one_line
from runner.logs.facts import Facts
from runner.logs.lines import Tail
from runner.logs.values import Writer

_MOST_AFTER = 20
"""Lines after a failure that are not of it, and with which it may still be the end of the run."""
_OF_A_FAILURE = re.compile(
    r"^\s{0,8}$|^[\W_]{4,}|^ {2}|[Ee]xception|[Tt]erminat|[Ee]xit|[Ww]arn|WARN|wandb:|NCCL|UCX|[Tt]orch[./]distributed"
    r"|srun|mpirun|MPI|[Rr]ank\b|[Hh]ost\b|leaked|[Rr]oot [Cc]ause|^\[?\d?\]?\s?[#$>]|^\S{1,60}[$#%>] ?"
    r"|^(?:time|exitcode)\b"
)
"""What stands in the lines that launchers, other processes and the shell write after a failure."""
_SMELLS = re.compile(
    r"Traceback|Error|ERROR|[Ff]ailed|FAIL|\b[Kk]ill|[Aa]bort|SIG[A-Z]{3}|[Ss]ignal|[Cc]ancel|CANCEL|core dumped"
    r"|[Ff]ault\b|[Oo]ut of memory|OOM|exit(?:ed)?(?: with)? (?:code|status)[: ]{1,8}-?[1-9]"
)
"""What a failure may look like of which no dialect knows the words."""


class Status(NamedTuple):
    """A status, None if the log does not say; the line that shows it; and notes."""

    status: str | None
    line: int | None = None
    notes: tuple[str, ...] = ()


def status_of(facts: Facts, tail: Tail) -> Status:
    """Judge a log."""
    if facts.runs.get("run_stop"):
        return _mlperf(facts)
    completed, who = max(((line, key[0]) for key, line in _ends(facts).items()), default=(0, None))
    failure, notes = facts.failure, tuple[str, ...]()
    if failure:
        went_on = max(facts.progress.line if facts.progress else 0, facts.evaluated, completed)
        is_last = failure.line >= went_on and _ends_with(tail, failure.line)
        notes = (f"line {failure.line} says: {failure.text}" + ("" if is_last else "; the run went on"),)
        if is_last:
            return Status(None if completed and failure.value == "trouble" else "failed", failure.line, notes)
    if completed:
        is_sure = (not failure or facts.failed == who) and not _smells(tail, completed)
        return Status("completed", completed, notes) if is_sure else Status(None, None, notes)
    if not failure and _reached(facts) and not _smells(tail, facts.evaluated):
        return Status("completed", max(facts.evaluated, facts.progress.line if facts.progress else 0), notes)
    return Status(None, None, notes)


def _ends(facts: Facts) -> dict[tuple[Writer, str], int]:
    """Return the words of the end that are said once, unless a declared number of epochs or steps was not reached."""
    progress, declared = facts.progress, facts.declared_epochs()
    if progress and progress.epoch is None and progress.steps is not None and (progress.step or 0) < progress.steps:
        return {}
    if declared and (seen := facts.seen()) and max(seen) < declared.value - (min(seen) == 0):
        return {}
    return {} if facts.restart else {key: line for key, line in facts.ends.items() if key not in facts.repeated}


def _reached(facts: Facts) -> bool:
    """Return whether the log shows the declared number of epochs or steps, and that the last of them ended."""
    progress, declared, seen = facts.progress, facts.declared_epochs(), facts.seen()
    if progress is None or facts.restart:
        return False
    if progress.epoch is None:
        return progress.step is not None and progress.steps is not None and progress.step >= progress.steps
    if declared is None or not seen or progress.epoch != max(seen):
        return False
    highest, is_last = max(seen), facts.evaluated < progress.line
    if highest < declared.value - (min(seen) == 0) or (highest < declared.value and declared.line in seen.values()):
        return False  # of epochs that begin with 0, the last one of `Epoch 3/4` may be 3 or 4
    if progress.done is None or not progress.total:
        return not (facts.has_steps or (is_last and facts.evaluated))
    widest = max(progress.total - facts.stride, 1) if facts.widest is None else facts.widest
    return progress.done >= widest and not (is_last and (facts.evaluated or progress.done < progress.total))


def _ends_with(tail: Tail, line: int) -> bool:
    """Return whether nothing follows on a failure but its own lines and those of launchers and the shell."""
    lines = tail.lines
    if line < lines[0][0]:
        return False
    after = [text for number, text in lines if number > line]
    if any(text.startswith("real\t") for text in after):
        return False
    return sum(not (_OF_A_FAILURE.search(text) or _SMELLS.search(text)) for text in after) <= _MOST_AFTER


def _smells(tail: Tail, line: int) -> bool:
    return any(number > line and _SMELLS.search(text) for number, text in tail.lines)


def _mlperf(facts: Facts) -> Status:
    """Judge by run_stop, where an MLPerf log has one."""
    stops = facts.runs["run_stop"]
    line, last = facts.run_lines["run_stop"], facts.run_lines.get("last run_start", 0)
    if last > line:
        return Status(None, last, ("another run_start has no run_stop",))
    words = [stop.metadata.get("status") for stop in stops]
    bad = next((word for word in words if word not in (None, "success")), None)
    if bad is not None:
        return Status("failed", line, (f"run_stop says {one_line(repr(bad), 60)}",))
    return Status("completed", line, () if "success" in words else ("run_stop has no status",))
