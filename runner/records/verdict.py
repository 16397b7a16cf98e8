"""A record's `status` and `reason`."""

from collections import defaultdict

from runner.core.text import listed, one_line
from runner.records.schema import NO_OUTCOME, Launch, NodeExit, Outcome, Record
from runner.records.stdout_figures import place_of

_MOST_SAID = 3
_NO_EVENTS = "a program that knows nothing of the kit is read by a dialect: name one in its definition"


def verdict(record: Record, launch: Launch) -> tuple[str, str | None]:
    """Return status and reason, the reason as one printable line."""
    if record.outcome is None:
        return NO_OUTCOME
    ended = _stopped(record.outcome, launch) or _failed(record, record.outcome.exits) or _told(record, launch)
    status, reason = ended or ("completed", None)
    return status, one_line(reason) if reason else None


def _stopped(outcome: Outcome, launch: Launch) -> tuple[str, str] | None:
    """Return why the runner ended the run."""
    because, where = outcome.stopped_because, _where(outcome)
    if because == "interrupted":
        return "interrupted", f"stopped by Ctrl-C or a signal to the runner{where}"
    if because == "timed_out":
        limits = (ended.why for ended in outcome.exits if ended.stopped_because == "timed_out" and ended.why)
        own = f"not done after timeout_seconds: {launch.timeout_seconds:g}{where}"
        return "timed_out", next(limits, own)  # a limit that is not the run's own comes first
    if because == "hung":
        patience = "" if launch.patience_seconds is None else f" (patience_seconds: {launch.patience_seconds:g})"
        return "failed", f"no progress{patience}{where}"
    return ("failed", because) if because else None


def _failed(record: Record, exits: list[NodeExit]) -> tuple[str, str] | None:
    """Return which node or rank failed first."""
    failure = record.failure
    gone = [ended for ended in exits if ended.code is None and ended.signal is None]
    if gone and (not failure or failure.node in {ended.node for ended in gone}):
        whys = dict.fromkeys(ended.why or "killed, removed, or never started" for ended in gone)
        return "killed", f"node {listed(ended.node for ended in gone)} left no exit code: {'; '.join(whys)}"
    if failure is None:
        return None
    who = f"rank {failure.rank} (node {failure.node})" if failure.rank is not None else f"node {failure.node}"
    why = "".join(f": {ended.why}" for ended in exits if ended.node == failure.node and ended.why)
    if failure.signal:
        starved = any(ended.out_of_memory for ended in exits)
        return "failed", f"{who} was killed by {failure.signal}{': the container ran out of memory' * starved}{why}"
    how = "failed" if failure.exit_code is None else f"exited with {failure.exit_code}"
    return "failed", f"{who} {how}{' while others still ran' * (failure.exit_code == 0)}{why}"


def _told(record: Record, launch: Launch) -> tuple[str, str] | None:
    """Return what the events of the ranks say, or the log of a program that is read by a dialect."""
    if launch.dialects:
        told = record.printed.get("status")
        if told and told["value"] == "failed":
            return "failed", f"exit code 0, yet {place_of(told)} says that it failed"
        return None
    if silent := [facts.rank for facts in record.ranks if facts.status is None]:
        hint = "" if any(facts.events_seen for facts in record.ranks) else f"; {_NO_EVENTS}"
        return "incomplete", f"exit code 0, yet no run_stop from rank {listed(silent)}{hint}"
    if aborted := [facts.rank for facts in record.ranks if facts.status != "success"]:
        return "failed", f"rank {listed(aborted)} says that it was aborted"
    missing, broken = record.events["expected"] - record.events["seen"], record.events["malformed"]
    if missing or broken:
        return "incomplete", f"{missing} of {record.events['expected']} events missing, {broken} malformed"
    return None


def _where(outcome: Outcome) -> str:
    """Return where silent ranks were when the run was ended, else the explanation of a cluster."""
    if stuck := outcome.stuck:
        why = f": {'; '.join(stuck.says[:_MOST_SAID])}" if stuck.says else ""
        return f"; nothing was heard for {stuck.quiet_seconds:.0f} s{why}"
    nodes: dict[str, list[int]] = defaultdict(list)
    for ended in outcome.exits:
        if ended.why:
            nodes[ended.why].append(ended.node)
    return "".join(f"; node {listed(numbers)}: {why}" for why, numbers in nodes.items())
