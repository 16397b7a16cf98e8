"""Which machines runs were made on, of what kind, and whether machine and cell can be told apart.

Rule: a machine is known by the id that its kernel drew at its start, which all containers on it share, or else by its
name. Times of two cells are compared where at least two thirds of the runs are on machines that both cells used alike,
or where no machine has two runs of a cell: then what machines do is in the spread of both. A cell of more nodes than
the other uses further machines, which count for neither.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from runner.core.layout import Layout
from runner.core.text import listed, one_line
from runner.core.values import positive

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from runner.records.schema import Launch, Record
    from runner.report.rows import CellRuns
    from runner.report.run_summary import RunSummary

UNKNOWN = "unknown"
KIND = ("CPU", "usable cores", "kernel")
MOST_APART = 0.01
"""By how much the memory of equal machines may differ: firmware and kernel keep some MB of it for themselves."""
ENOUGH_SHARED = 2 / 3
"""With fewer runs on the same machines, ten repeats on each side would show what the machines do as a difference."""
_ON_THE_RUNNERS_MACHINE = ("local", "compose", "replay")
_LONGEST = 200
_LONGEST_ID = 8
_MOST_NAMED = 3
_GB = 1e9

Machine = tuple[str, str]
"""Its id and its name, each empty if it is not known."""


def kind_of(record: Record) -> dict[str, str]:
    """Return the kind of a run's machines as values that have to be the same in all runs of a claim."""
    nodes, launch = _nodes(record), record.launch
    # These cores are the cell's: what its axis names, or what Slurm and Kubernetes allot to so many processes.
    allotted = any("job" in place or "limits" in place for _, place in nodes) and not launch.options.get("cpu")
    of_the_cell = allotted or "cpus" in launch.options
    found = (
        _listed(_told(record, "cpu")),
        "" if of_the_cell else _listed(_told(record, "cores")),
        _listed(_told(record, "kernel")),
    )
    return dict(zip(KIND, found, strict=True))


def memory_of(record: Record) -> list[float]:
    """Return the least and the most memory of a run's machines, in bytes; nothing if one does not say it."""
    found = [positive(value) for value in _told(record, "memory_bytes")]
    known = [value for value in found if value is not None]
    return [min(known), max(known)] if len(known) == len(found) else []


def machines_of(record: Record) -> list[Machine]:
    """Return the machines of a run, each once; one of which nothing is known has neither id nor name."""
    return sorted({_machine(facts, place, record.launch) for facts, place in _nodes(record)})


def kind_differs(runs: Sequence[RunSummary]) -> str | None:
    """Name the first thing in which the kinds of machine of two runs differ, before and now."""
    one, other = runs
    values = {name: (one.same.get(name, ""), other.same.get(name, "")) for name in KIND}
    values = {"hardware": (one.hardware, other.hardware), **values}
    found = (f"{name} {a or UNKNOWN} before, {b or UNKNOWN} now" for name, (a, b) in values.items() if a != b)
    return next(found, None) or memory_differs(runs)


def memory_differs(runs: Sequence[RunSummary]) -> str | None:
    """Name two amounts of memory that no two equal machines have."""
    known = [run.memory for run in runs if run.memory]
    if known and len(known) < len(runs):
        return f"memory differs: {UNKNOWN} and {known[0][0] / _GB:.1f} GB"
    least, most = min((run[0] for run in known), default=0.0), max((run[1] for run in known), default=0.0)
    apart = least < most * (1 - MOST_APART)
    return f"memory differs: {least / _GB:.1f} GB and {most / _GB:.1f} GB" if apart else None


def machine_decides(a: CellRuns, b: CellRuns, names: tuple[str, str]) -> str | None:
    """Return why a difference between two cells may be one between their machines; None if it can be told apart.

    Args:
        a: the complete runs of one cell.
        b: those of the other.
        names: what the two are called.
    """
    used = _used(a.complete, b.complete)
    for name, runs in zip(names, used, strict=True):
        if any("" in machines or not machines for machines in runs):
            return f"not known on which machine {name} ran"
    if _shared(*used) or all(_spread(runs) for runs in used):
        return None
    ran = (f"{name} on {_named(side.complete)}" for name, side in zip(names, (a, b), strict=True))
    return f"the machine may make the difference: {', '.join(ran)}"


def count_machines(runs: Sequence[RunSummary]) -> int:
    """Count the known machines on which runs were made."""
    return len({machine for machines in _used(runs)[0] for machine in machines} - {""})


def _shared(a: list[set[str]], b: list[set[str]]) -> bool:
    """Return whether enough of the work of both sides was done on the same machines, as far as their sizes allow."""
    shares, sizes = (_shares(a), _shares(b)), sorted((_nodes_each(a), _nodes_each(b)))
    common = sum(min(shares[0][machine], shares[1][machine]) for machine in shares[0])
    return common >= ENOUGH_SHARED * sizes[0] / sizes[1] - 1e-9


def _shares(runs: list[set[str]]) -> defaultdict[str, float]:
    """Return which part of a side's work each machine did."""
    found: defaultdict[str, float] = defaultdict(float)
    for machines in runs:
        for machine in machines:
            found[machine] += 1 / (len(machines) * len(runs))
    return found


def _nodes_each(runs: list[set[str]]) -> float:
    return sum(map(len, runs)) / len(runs)


def _spread(runs: list[set[str]]) -> bool:
    """Return whether every run was made on machines of its own."""
    return sum(map(len, runs)) == len(set().union(*runs))


def _used(*sides: Sequence[RunSummary]) -> list[list[set[str]]]:
    """Return the machines of each run; one of which only the name is known is the one that has it with an id."""
    ids = {name: id_ for side in sides for run in side for id_, name in run.machines if id_ and name}
    return [[{id_ or ids.get(name, name) for id_, name in run.machines} for run in side] for side in sides]


def _named(runs: Iterable[RunSummary]) -> str:
    found = dict.fromkeys(machine for run in runs for machine in run.machines)
    words = [f"{name} ({id_[:_LONGEST_ID]})" if id_ and name else name or id_[:_LONGEST_ID] for id_, name in found]
    return listed((one_line(word, 40) for word in words), most=_MOST_NAMED)


def _machine(facts: Mapping[str, Any], place: Mapping[str, Any], launch: Launch) -> Machine:
    """Name a node's machine; the host of a container is its own name, and no machine's."""
    here = _here(launch)
    name = place.get("machine") or (facts.get("host") if launch.image is None else None) or here.get("name")
    return one_line(facts.get("machine") or here.get("machine") or "", _LONGEST), one_line(name or "", _LONGEST)


def _nodes(record: Record) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return of each node what its first rank says of it, and its place; both empty where nothing is known."""
    said: dict[int, dict[str, Any]] = {}
    for rank in record.ranks:
        if rank.facts:
            said.setdefault(rank.node, rank.facts)
    places = {one.node: one.place for one in record.outcome.exits} if record.outcome else {}
    nodes = sorted({*said, *places})
    found = [(said.get(node, {}), places.get(node, {})) for node in nodes]
    lacking = len(nodes) < Layout.parse(record.launch.layout).nodes
    return [*found, *([({}, {})] if lacking else [])]


def _told(record: Record, name: str) -> list[Any]:
    """Return what nodes say of themselves, and the runner if it is on the same machine; None for one that does not."""
    found = [_own(facts, name, record.launch.device) for facts, _ in _nodes(record)]
    here = _own(_here(record.launch), name, "")
    return found if here is None else [here, *(value for value in found if value is not None)]


def _own(facts: Mapping[str, Any], name: str, device: str) -> Any:
    value = facts.get(name)
    if value is None and name == "kernel" and "os" in facts:  # for example Linux-6.1-x86_64-with-glibc2.36
        value = str(facts["os"] or "").partition("-with-")[0] or None
    return facts.get("device_name") if value is None and name == "cpu" and device == "cpu" else value


def _here(launch: Launch) -> dict[str, Any]:
    """Return the facts of the machine of the runner, if it is that of the run."""
    return launch.host if launch.target in _ON_THE_RUNNERS_MACHINE else {}


def _listed(values: Iterable[object]) -> str:
    return listed(sorted({one_line(UNKNOWN if value is None else value, _LONGEST) for value in values}))
