"""What a record says of the machines that its run was made on: of what kind they are, and which they are."""

from collections.abc import Iterable, Mapping
from typing import Any

from runner.core.layout import Layout
from runner.core.text import listed, one_line
from runner.core.values import positive
from runner.records.schema import Launch, Record

UNKNOWN = "unknown"
KIND = ("CPU", "usable cores", "kernel")
_ON_THE_RUNNERS_MACHINE = ("local", "compose", "replay")
_LONGEST = 200

Machine = tuple[str, str]
"""Its id and its name, each empty if it is not known."""


def kind_of(record: Record) -> dict[str, str]:
    """Return the kind of a run's machines as values that have to be the same in all runs of a claim."""
    nodes, launch = _nodes(record), record.launch
    # These cores are the cell's: what its axis names, or what Slurm and Kubernetes allot to so many processes.
    allotted = any("job" in place or "limits" in place for _, place in nodes) and not launch.options.get("cpu")
    of_the_cell = allotted or "cpus" in launch.options
    cpu, cores, kernel = (_listed(_told(record, name)) for name in ("cpu", "cores", "kernel"))
    return dict(zip(KIND, (cpu, "" if of_the_cell else cores, kernel), strict=True))


def memory_of(record: Record) -> list[float]:
    """Return the least and the most memory of a run's machines, in bytes; nothing if one does not say it."""
    found = [positive(value) for value in _told(record, "memory_bytes")]
    known = [value for value in found if value is not None]
    return [min(known), max(known)] if len(known) == len(found) else []


def machines_of(record: Record) -> list[Machine]:
    """Return the machines of a run, each once; one of which nothing is known has neither id nor name."""
    here, found = facts_here(record.launch), set()
    for facts, place in _nodes(record):
        # The host of a container is its own name, and no machine's.
        host = facts.get("host") if record.launch.image is None else None
        id_, name = facts.get("machine") or here.get("machine"), place.get("machine") or host or here.get("name")
        found.add((one_line(id_ or "", _LONGEST), one_line(name or "", _LONGEST)))
    return sorted(found)


def _nodes(record: Record) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return of each node what its first rank says of it, and its place; both empty where nothing is known."""
    said: dict[int, dict[str, Any]] = {}
    for rank in record.ranks:
        if rank.facts:
            said.setdefault(rank.node, rank.facts)
    places = {ended.node: ended.place for ended in record.outcome.exits} if record.outcome else {}
    nodes = sorted({*said, *places})
    found = [(said.get(node, {}), places.get(node, {})) for node in nodes]
    lacking = len(nodes) < Layout.parse(record.launch.layout).nodes
    return [*found, *([({}, {})] if lacking else [])]


def _told(record: Record, name: str) -> list[Any]:
    """Return what nodes say of themselves, and the runner if it is on the same machine; None for one that does not."""
    found = [_own(facts, name, record.launch.device) for facts, _ in _nodes(record)]
    here = _own(facts_here(record.launch), name, "")
    return found if here is None else [here, *(value for value in found if value is not None)]


def _own(facts: Mapping[str, Any], name: str, device: str) -> Any:
    value = facts.get(name)
    if value is None and name == "kernel" and "os" in facts:  # for example Linux-6.1-x86_64-with-glibc2.36
        value = str(facts["os"] or "").partition("-with-")[0] or None
    return facts.get("device_name") if value is None and name == "cpu" and device == "cpu" else value


def facts_here(launch: Launch) -> dict[str, Any]:
    """Return the facts of the machine of the runner, if it is that of the run."""
    return launch.host if launch.target in _ON_THE_RUNNERS_MACHINE else {}


def _listed(values: Iterable[object]) -> str:
    return listed(sorted({one_line(UNKNOWN if value is None else value, _LONGEST) for value in values}))
