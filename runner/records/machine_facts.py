"""The machines of a run by its record: their kind and their names."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from runner.core.layout import Layout
from runner.core.text import listed
from runner.records.schema import Launch, Record

UNKNOWN = "unknown"
_ON_THE_RUNNERS_MACHINE = ("local", "compose")

Machine = tuple[str, str]
"""Its id and its name, each empty if it is not known."""


class Machines(NamedTuple):
    """The machines of a run.

    `kind` has to be the same in all runs of a claim. `memory` is the smallest and the largest, in bytes; empty if one
    is unknown. `each` lists each machine once; an unknown one has neither id nor name.
    """

    kind: dict[str, str]
    memory: list[float]
    each: list[Machine]


def machines_of(record: Record) -> Machines:
    """Combine the facts of all nodes with those of the runner, if it is on the same machine."""
    launch = record.launch
    nodes, here = _nodes(record), facts_here(launch)

    def told(name: str) -> list[Any]:
        found = [facts.get(name) for facts, _ in nodes]
        return found if here.get(name) is None else [here[name], *(value for value in found if value is not None)]

    # These cores are the cell's: what its axis names, or what Slurm and Kubernetes allot to so many processes.
    allotted = any("job" in place or "limits" in place for _, place in nodes) and not launch.options.get("cpu")
    of_the_cell = allotted or "cpus" in launch.options
    cores = "" if of_the_cell else _listed(told("cores"))
    kind = {"CPU": _listed(told("cpu")), "usable cores": cores, "kernel": _listed(told("kernel"))}
    memory = told("memory_bytes")
    each = set()
    for facts, place in nodes:
        # The host of a container is its own name, and no machine's.
        host = facts.get("host") if launch.image is None else None
        name = place.get("machine") or host or here.get("name")
        each.add((facts.get("machine") or here.get("machine") or "", name or ""))
    known = [min(memory), max(memory)] if memory and None not in memory else []
    return Machines(kind, known, sorted(each))


def _nodes(record: Record) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the facts of each node's first rank, and its place; empty if unknown."""
    said: dict[int, dict[str, Any]] = {}
    for rank in record.ranks:
        if rank.facts and rank.node not in said:
            of_cpu = {"cpu": rank.facts.get("device_name")} if record.launch.device == "cpu" else {}
            said[rank.node] = of_cpu | {name: value for name, value in rank.facts.items() if value is not None}
    places = {ended.node: ended.place for ended in record.outcome.exits} if record.outcome else {}
    found = [(said.get(node, {}), places.get(node, {})) for node in sorted({*said, *places})]
    lacking = len(found) < Layout.parse(record.launch.layout).nodes
    return [*found, *([({}, {})] if lacking else [])]


def facts_here(launch: Launch) -> dict[str, Any]:
    """Return the facts of the machine of the runner, if it is that of the run."""
    return launch.host if launch.target in _ON_THE_RUNNERS_MACHINE else {}


def _listed(values: Iterable[object]) -> str:
    return listed(sorted({UNKNOWN if value is None else str(value) for value in values}))
