"""Derive the machines, the times and the results of training from a run's record."""

import math
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any, NamedTuple

from runner.core.layout import Layout
from runner.core.text import listed
from runner.records.schema import Launch, Record

UNKNOWN = "unknown"
_ON_THE_RUNNERS_MACHINE = ("local", "compose")
_CLOCK_SECONDS = 2.0
TEST_LOSS, TRAINING_LOSS = "test loss", "training loss"

Machine = tuple[str, str]
"""Id and name of a machine, each '' if unknown."""
Figures = dict[str, list[float]]
"""First and last value of each figure, NaN if missing. The most telling figure comes first."""


class Machines(NamedTuple):
    """Machines of a run.

    A claim needs runs whose `kind` is equal. `memory` holds the smallest and the largest memory in bytes. It is empty
    if the memory of any machine is unknown. `each` lists every machine once.
    """

    kind: dict[str, str]
    memory: list[float]
    each: list[Machine]


def machines_of(record: Record) -> Machines:
    """Combine the facts of all nodes, and of the runner's machine if the run used it."""
    launch = record.launch
    nodes, here = _nodes(record), facts_here(launch)

    def values_of(name: str) -> list[Any]:
        values = [facts.get(name) for facts, _ in nodes]
        return values if here.get(name) is None else [here[name], *(value for value in values if value is not None)]

    # Cores that an axis, Slurm or Kubernetes allots belong to the cell and not to the machine.
    allotted = any("job" in place or "limits" in place for _, place in nodes) and not launch.options.get("cpu")
    cores = "" if allotted or "cpus" in launch.options else _kinds(values_of("cores"))
    memory = values_of("memory_bytes")
    each = set()
    for facts, place in nodes:
        # A container's hostname does not name a machine.
        host = facts.get("host") if launch.image is None else None
        name = place.get("machine") or host or here.get("name")
        each.add((facts.get("machine") or here.get("machine") or "", name or ""))
    return Machines(
        {"CPU": _kinds(values_of("cpu")), "usable cores": cores, "kernel": _kinds(values_of("kernel"))},
        [min(memory), max(memory)] if memory and None not in memory else [],
        sorted(each),
    )


def _nodes(record: Record) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return two mappings for each node: facts of the first rank, and the node's place. A mapping may be empty."""
    of_nodes: dict[int, dict[str, Any]] = {}
    for rank in record.ranks:
        if rank.facts and rank.node not in of_nodes:
            of_cpu = {"cpu": rank.facts.get("device_name")} if record.launch.device == "cpu" else {}
            of_nodes[rank.node] = of_cpu | {name: value for name, value in rank.facts.items() if value is not None}
    places = {ended.node: ended.place for ended in record.outcome.exits} if record.outcome else {}
    nodes = [(of_nodes.get(node, {}), places.get(node, {})) for node in sorted({*of_nodes, *places})]
    return nodes if len(nodes) >= Layout.parse(record.launch.layout).nodes else [*nodes, ({}, {})]


def facts_here(launch: Launch) -> dict[str, Any]:
    """Return the facts of the runner's machine; {} if the run did not use this machine."""
    return launch.host if launch.target in _ON_THE_RUNNERS_MACHINE else {}


def _kinds(values: Iterable[object]) -> str:
    return listed(sorted({UNKNOWN if value is None else str(value) for value in values}))


def read_moment(text: str) -> datetime:
    """Parse an ISO 8601 time, which is UTC if no zone is stated. Raises ValueError if the text is invalid."""
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def moment_of(record: Record) -> float:
    """Return the start of a run in seconds since 1970 UTC.

    A job may queue after its launch, and launch times have whole seconds. So the start is the end minus the duration of
    the processes. But if the time from launch to end differs from the measured duration, the launch time counts.
    """
    launched, ended = read_moment(record.launch.started).timestamp(), end_of(record)
    if ended is None or record.outcome is None:
        return launched
    wall = record.outcome.wall_seconds
    took = min(record.metrics.get("total_seconds", wall), wall)
    return max(launched, ended - took) if abs(launched + wall - ended) <= _CLOCK_SECONDS else launched


def end_of(record: Record) -> float | None:
    """Return the end of a run in seconds since 1970 UTC; None if the record has no outcome."""
    return read_moment(record.outcome.ended).timestamp() if record.outcome else None


def figures_of(record: Record) -> Figures:
    """Return a run's losses, and the metric of its evaluation if that metric is not the accuracy."""
    metrics = record.metrics
    figures: dict[str, list[float | None]] = {TEST_LOSS: _losses(record.evaluations, metrics.get("final_eval_loss"))}
    if evaluated := record.printed.get("final_eval"):
        metric, value = evaluated["value"]["metric"], evaluated["value"]["value"]
        if metric == "perplexity":  # compared as a loss: perplexity is the exponential of the loss
            metric, value = TEST_LOSS, math.log(value) if value and value > 0 else None
        name = TEST_LOSS if metric == "val_loss" else metric
        if name not in (None, "accuracy") and not figures.get(name):
            figures[name] = [value]
    figures[TRAINING_LOSS] = _losses(record.epochs, metrics.get("final_loss"))
    return {
        name: [math.nan if value is None else value for value in (values[0], values[-1])]
        for name, values in figures.items()
        if values
    }


def _losses(rows: list[dict[str, Any]], last: float | None) -> list[float | None]:
    return [*(row["loss"] for row in rows if "loss" in row), *([] if last is None else [last])]
