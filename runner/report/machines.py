"""Which machines runs were made on, of what kind, and whether machine and cell can be told apart.

Rule: a machine is known by the id that its kernel drew at its start, which all containers on it share, or else by its
name. Times of two cells are compared where at least two thirds of the runs are on machines that both cells used alike,
or where no machine has two runs of a cell: then what machines do is in the spread of both. A cell of more nodes than
the other uses further machines, which count for neither.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean

from runner.core.text import listed
from runner.records.record_facts import UNKNOWN
from runner.report.rows import CellRuns
from runner.report.run_summary import RunSummary

MOST_APART = 0.01
"""By how much the memory of equal machines may differ: firmware and kernel keep some MB of it for themselves."""
ENOUGH_SHARED = 2 / 3
"""With fewer runs on the same machines, ten repeats on each side would show what the machines do as a difference."""
_LONGEST_ID = 8
_MOST_NAMED = 3
_GB = 1e9


def memory_differs(runs: Sequence[RunSummary]) -> str | None:
    """Name two amounts of memory that no two equal machines have."""
    known = [run.memory for run in runs if run.memory]
    if known and len(known) < len(runs):
        return f"memory differs: {UNKNOWN} and {known[0][0] / _GB:.1f} GB"
    least, most = min((run[0] for run in known), default=0.0), max((run[1] for run in known), default=0.0)
    apart = least < most * (1 - MOST_APART)
    return f"memory differs: {least / _GB:.1f} GB and {most / _GB:.1f} GB" if apart else None


def machine_decides(a: CellRuns, b: CellRuns, names: tuple[str, str]) -> str | None:
    """Return why a difference between two cells may be one between their machines; None if it can be told apart."""
    used = _used(a.complete, b.complete)
    for name, runs in zip(names, used, strict=True):
        if any("" in machines or not machines for machines in runs):
            return f"not known on which machine {name} ran"
    # Or every run was made on machines of its own.
    if _shared(*used) or all(sum(map(len, runs)) == len(set().union(*runs)) for runs in used):
        return None
    ran = (f"{name} on {_named(side.complete)}" for name, side in zip(names, (a, b), strict=True))
    return f"the machine may make the difference: {', '.join(ran)}"


def count_machines(runs: Sequence[RunSummary]) -> int:
    """Count the known machines on which runs were made."""
    return len({machine for machines in _used(runs)[0] for machine in machines} - {""})


def _shared(a: list[set[str]], b: list[set[str]]) -> bool:
    """Return whether enough of the work of both sides was done on the same machines, as far as their sizes allow."""
    shares, sizes = (_shares(a), _shares(b)), sorted(fmean(map(len, side)) for side in (a, b))
    common = sum(min(shares[0][machine], shares[1][machine]) for machine in shares[0])
    return common >= ENOUGH_SHARED * sizes[0] / sizes[1] - 1e-9


def _shares(runs: list[set[str]]) -> defaultdict[str, float]:
    """Return which part of a side's work each machine did."""
    found: defaultdict[str, float] = defaultdict(float)
    for machines in runs:
        for machine in machines:
            found[machine] += 1 / (len(machines) * len(runs))
    return found


def _used(*sides: Sequence[RunSummary]) -> list[list[set[str]]]:
    """Return the machines of each run; one of which only the name is known is the one that has it with an id."""
    ids = {name: id_ for side in sides for run in side for id_, name in run.machines if id_ and name}
    return [[{id_ or ids.get(name, name) for id_, name in run.machines} for run in side] for side in sides]


def _named(runs: Iterable[RunSummary]) -> str:
    found = dict.fromkeys(machine for run in runs for machine in run.machines)
    words = [f"{name} ({id_[:_LONGEST_ID]})" if id_ and name else name or id_[:_LONGEST_ID] for id_, name in found]
    return listed(words, most=_MOST_NAMED)
