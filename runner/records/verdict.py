"""How a run ended, and why where it is not completed: the words of a record's `status` and `reason`."""

from collections import defaultdict

from runner.core.text import listed, one_line
from runner.records.schema import NO_OUTCOME, Launch, Outcome, Record
from runner.records.stdout_figures import place_of

_MOST_SAID = 3
_NO_EVENTS = "a program that knows nothing of the kit is read by a dialect: name one in its definition"


def verdict(record: Record, launch: Launch) -> tuple[str, str | None]:
    """Return status and reason, each reason one printable line."""
    status, reason = _stopped(record, launch) or _failed(record) or _told(record, launch)
    return status, one_line(reason) if reason else None


def _stopped(record: Record, launch: Launch) -> tuple[str, str] | None:
    """Return what ended the run from outside."""
    outcome = record.outcome
    if outcome is None:
        return NO_OUTCOME
    where = _stuck(outcome) or _whys(outcome)
    if outcome.stopped_because == "interrupted":
        return "interrupted", f"stopped by Ctrl-C or a signal to the runner{where}"
    if outcome.stopped_because == "timed_out":
        if said := [ended.why for ended in outcome.exits if ended.stopped_because == "timed_out" and ended.why]:
            return "timed_out", said[0]  # by a limit that is not the run's own
        return "timed_out", f"not done after timeout_seconds: {launch.timeout_seconds:g}{where}"
    if outcome.stopped_because == "hung":
        patience = "" if launch.patience_seconds is None else f" (patience_seconds: {launch.patience_seconds:g})"
        return "failed", f"no progress{patience}{where}"
    return ("failed", outcome.stopped_because) if outcome.stopped_because else None


def _failed(record: Record) -> tuple[str, str] | None:
    """Return which node or rank failed first."""
    exits = record.outcome.exits if record.outcome else []
    gone = [ended for ended in exits if ended.code is None and ended.signal is None]
    if gone and (not record.failure or record.failure.node in {ended.node for ended in gone}):
        whys = dict.fromkeys(ended.why or "killed, removed, or never started" for ended in gone)
        return "killed", f"node {listed(ended.node for ended in gone)} left no exit code: {'; '.join(whys)}"
    failure = record.failure
    if failure is None:
        return None
    who = f"rank {failure.rank} (node {failure.node})" if failure.rank is not None else f"node {failure.node}"
    why = "".join(f": {ended.why}" for ended in exits if ended.node == failure.node and ended.why)
    if failure.signal:
        starved = any(ended.out_of_memory for ended in exits)
        return "failed", f"{who} was killed by {failure.signal}{': the container ran out of memory' * starved}{why}"
    how = "failed" if failure.exit_code is None else f"exited with {failure.exit_code}"
    how += " while others still ran" * (failure.exit_code == 0)
    return "failed", f"{who} {how}{why}"


def _told(record: Record, launch: Launch) -> tuple[str, str | None]:
    """Return what the ranks' own events leave open; of a program that has none, what its stdout says."""
    if launch.dialects:
        return _printed(record)
    silent = [facts.rank for facts in record.ranks if facts.status is None]
    if silent:
        hint = "" if any(facts.events_seen for facts in record.ranks) else f"; {_NO_EVENTS}"
        return "incomplete", f"exit code 0, yet no run_stop from rank {listed(silent)}{hint}"
    aborted = [facts.rank for facts in record.ranks if facts.status != "success"]
    if aborted:
        return "failed", f"rank {listed(aborted)} says that it was aborted"
    missing = record.events["expected"] - record.events["seen"]
    broken = record.events["malformed"]
    if missing or broken:
        return "incomplete", f"{missing} of {record.events['expected']} events missing, {broken} malformed"
    return "completed", None


def _printed(record: Record) -> tuple[str, str | None]:
    """Return what the log of a program that ended well says of its end."""
    told = record.printed.get("status")
    if told and told["value"] == "failed":
        return "failed", f"exit code 0, yet {place_of(told)} says that it failed"
    return "completed", None


def _stuck(outcome: Outcome) -> str:
    """Return where the ranks were when the run was ended, if nothing was heard of them any more."""
    if outcome.stuck is None:
        return ""
    why = f": {'; '.join(outcome.stuck.says[:_MOST_SAID])}" if outcome.stuck.says else ""
    return f"; nothing was heard for {outcome.stuck.quiet_seconds:.0f} s{why}"


def _whys(outcome: Outcome) -> str:
    """Return what a cluster says of the nodes, each word once."""
    nodes: dict[str, list[int]] = defaultdict(list)
    for ended in outcome.exits:
        if ended.why:
            nodes[ended.why].append(ended.node)
    return "".join(f"; node {listed(numbers)}: {why}" for why, numbers in nodes.items())
