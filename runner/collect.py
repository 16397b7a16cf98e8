"""Raw files -> Record: a pure parse that can be done again at any time."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from runner import load
from runner.errors import one_line
from runner.events import Event, Malformed, parse
from runner.failure import first_failure
from runner.layout import Layout
from runner.schema import Launch, NodeExit, Outcome, RankFacts, Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from runner.record import RunFolder

MOST_MALFORMED_KEPT = 20
_PHASES = ("setup", "data", "init", "warmup", "train", "eval")
_PLACE = {"rank", "seq", "node_rank"}


def collect(folder: RunFolder, launch: Launch, outcome: Outcome | None) -> Record:
    """Parse a run's raw files into its record; without an outcome the runner did not live to see the end."""
    layout = Layout.parse(launch.layout)
    by_rank: dict[int, list[Event]] = defaultdict(list)
    broken: list[str] = []
    for own, path in folder.outputs(layout):
        events, malformed = parse(path.read_bytes())
        for event in events:
            by_rank[_whole(event.metadata.get("rank"), own)].append(event)
        broken += [_describe(path.name, line) for line in malformed]
    ranks = _ranks(layout, by_rank)
    record = Record(launch=launch, status="running", outcome=outcome, ranks=ranks)
    flat = sorted((event for events in by_rank.values() for event in events), key=lambda event: event.time_ms)
    record.metrics = _metrics(by_rank, outcome)
    record.phases = _phases(flat)
    record.epochs = _epochs(flat)
    record.evaluations = [{"accuracy": event.value, **_fields(event)} for event in flat if event.key == "eval_accuracy"]
    record.facts = _facts(by_rank)
    record.load = load.of_nodes(ranks, by_rank)
    record.malformed = broken[:MOST_MALFORMED_KEPT]
    seen = sum(facts.events_seen for facts in ranks)
    known = [facts.events_expected for facts in ranks if facts.events_expected is not None]
    record.events = {"seen": seen, "expected": sum(known), "malformed": len(broken)}
    record.failure = first_failure(folder, layout, outcome, ranks)
    record.status, record.reason = _verdict(record, launch)
    return record


def _whole(value: object, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default


def _describe(file: str, line: Malformed) -> str:
    return one_line(f"raw/{file}:{line.line}: {line.reason}: {line.text}")


def _fields(event: Event) -> dict[str, Any]:
    return {key: value for key, value in event.metadata.items() if key not in _PLACE}


def _ranks(layout: Layout, by_rank: dict[int, list[Event]]) -> list[RankFacts]:
    """Count each rank's events: numbered from 0 without a gap, and the last one, `run_stop`, tells how many."""
    node_of = [node for node, processes in enumerate(layout.processes) for _ in range(processes)]
    ranks = []
    for rank in sorted({*range(layout.world_size), *by_rank}):
        events = by_rank.get(rank, [])
        numbers = {_whole(event.metadata.get("seq"), -1) for event in events} - {-1}
        start = next((event for event in events if event.key == "run_start"), None)
        stop = next((event for event in reversed(events) if event.key == "run_stop"), None)
        ranks.append(
            RankFacts(
                rank=rank,
                node=node_of[rank] if rank < len(node_of) else 0,
                facts=_fields(start) if start else {},
                status=str(stop.metadata.get("status")) if stop else None,
                events_seen=len(numbers) if numbers else len(events),
                events_expected=max(numbers) + 1 if numbers else None,
            )
        )
    return ranks


def _metrics(by_rank: dict[int, list[Event]], outcome: Outcome | None) -> dict[str, float]:
    """Merge what the ranks measured: the slowest rank's times, the largest one's bytes, else what rank 0 says.

    Durations come from each rank's monotonic clock with a barrier at both ends, so the slowest rank's is the run's.
    `total_seconds` is max(run_stop) - min(run_start) where all ranks read one clock, the slowest rank's own elsewhere.
    """
    metrics: dict[str, float] = {}
    for rank in sorted(by_rank, reverse=True):
        for event in by_rank[rank]:
            if event.key == "tracked_stats" and isinstance(event.value, dict):
                for key, value in event.value.items():
                    if isinstance(value, int | float) and not isinstance(value, bool):
                        slowest = key.endswith(("_seconds", "_bytes"))
                        metrics[key] = max(metrics.get(key, value), value) if slowest else value
    events = [event for rank in by_rank.values() for event in rank]
    starts = [event for event in events if event.key == "run_start"]
    stops = [event for event in events if event.key == "run_stop"]
    if stops and starts and len({str(event.metadata.get("host")) for event in starts}) == 1:
        first, last = min(event.time_ms for event in starts), max(event.time_ms for event in stops)
        metrics["total_seconds"] = (last - first) / 1000
    elif own := _numbers(stops, "total_seconds"):
        metrics["total_seconds"] = max(own)
    if outcome:
        metrics["wall_seconds"] = outcome.wall_seconds
    return {key: value for key, value in metrics.items() if math.isfinite(value)}


def _numbers(events: Iterable[Event], field: str) -> list[float]:
    values = (event.metadata.get(field) for event in events)
    return [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]


def _phases(events: list[Event]) -> dict[str, float]:
    """Sum each phase's seconds per rank; the slowest rank's is the run's."""
    sums: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for event in events:
        phase = event.key.removesuffix("_stop")
        if event.key.endswith("_stop") and phase in _PHASES and (seconds := _numbers([event], "seconds")):
            sums[phase][_whole(event.metadata.get("rank"), 0)] += seconds[0]
    return {phase: max(sums[phase].values()) for phase in _PHASES if phase in sums}


def _epochs(events: list[Event]) -> list[dict[str, Any]]:
    """Make one row an epoch: what rank 0 says of all, the slowest rank's seconds, each rank's samples."""
    rows: dict[int, dict[str, Any]] = {}
    for event in events:
        number = event.metadata.get("epoch_num")
        if event.key != "epoch_stop" or not isinstance(number, int):
            continue
        fields, rank = _fields(event), _whole(event.metadata.get("rank"), 0)
        row = rows.setdefault(number, {"epoch_num": number, "samples_by_rank": {}})
        samples = {**row["samples_by_rank"], str(rank): fields.pop("samples", None)}
        slowest = max([*_numbers([event], "train_seconds"), row.get("train_seconds", 0.0)])
        row.update(fields if rank == 0 else {})
        row.update(train_seconds=slowest, samples_by_rank=samples)
    return [rows[number] for number in sorted(rows)]


def _facts(by_rank: dict[int, list[Event]]) -> dict[str, Any]:
    """Gather what rank 0 says once about the data and the work."""
    facts: dict[str, Any] = {}
    for event in by_rank.get(0, []):
        if event.key in ("seed", "global_batch_size", "train_samples", "eval_samples", "dataset"):
            facts[event.key] = event.value
        if event.key == "dataset":
            facts.update({key: value for key, value in _fields(event).items() if re.fullmatch(r"\w+", key)})
        if event.key == "parameters":
            facts["parameters_sha256"] = event.value
    return facts


def _verdict(record: Record, launch: Launch) -> tuple[str, str | None]:  # noqa: PLR0911 - the first that holds
    """Say how the run ended, and why where it is not completed."""
    outcome = record.outcome
    if outcome is None:
        return "killed", "the runner was killed before the run ended"
    if outcome.stopped_because == "interrupted":
        return "interrupted", f"stopped by Ctrl-C or a signal to the runner{_whys(outcome)}"
    if outcome.stopped_because == "timed_out":
        return "timed_out", f"not done after timeout_seconds: {launch.timeout_seconds:g}{_whys(outcome)}"
    if outcome.stopped_because:
        return "failed", outcome.stopped_because
    gone = [ended for ended in outcome.exits if ended.code is None and ended.signal is None]
    if gone and (not record.failure or record.failure.node in [ended.node for ended in gone]):
        return "killed", _describe_gone(gone)
    if record.failure:
        return "failed", _describe_failure(record)
    silent = [facts.rank for facts in record.ranks if facts.status is None]
    if silent:
        return "incomplete", f"exit code 0, yet no run_stop from rank {', '.join(map(str, silent))}"
    aborted = [facts.rank for facts in record.ranks if facts.status != "success"]
    if aborted:
        return "failed", f"rank {', '.join(map(str, aborted))} says that it was aborted"
    missing = record.events["expected"] - record.events["seen"]
    broken = record.events["malformed"]
    if missing or broken:
        return "incomplete", f"{missing} of {record.events['expected']} events missing, {broken} malformed"
    return "completed", None


def _whys(outcome: Outcome) -> str:
    """Say what a cluster says of the nodes, each word once."""
    nodes: dict[str, list[str]] = defaultdict(list)
    for ended in outcome.exits:
        if ended.why:
            nodes[ended.why].append(str(ended.node))
    return "".join(f"; node {', '.join(numbers)}: {why}" for why, numbers in nodes.items())


def _describe_gone(gone: list[NodeExit]) -> str:
    whys = dict.fromkeys(ended.why or "killed, removed, or never started" for ended in gone)
    return f"node {', '.join(str(ended.node) for ended in gone)} left no exit code: {'; '.join(whys)}"


def _describe_failure(record: Record) -> str:
    """Say in one line who failed first and how."""
    failure = record.failure
    if failure is None:
        return record.reason or record.status
    who = f"rank {failure.rank} (node {failure.node})" if failure.rank is not None else f"node {failure.node}"
    exits = record.outcome.exits if record.outcome else []
    starved = any(ended.out_of_memory for ended in exits)
    why = "".join(f": {ended.why}" for ended in exits if ended.node == failure.node and ended.why)
    if failure.signal:
        return f"{who} was killed by {failure.signal}{': the container ran out of memory' * starved}{why}"
    if failure.exit_code is not None:
        return f"{who} exited with {failure.exit_code}{why}"
    return f"{who} failed{why}"
