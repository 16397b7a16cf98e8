"""What disturbed a run: others on its machine, throttling, swapping, by what its nodes reported while they trained."""

from collections import defaultdict
from typing import Any

from runner.records.schema import Load, Record

MOST_PERCENT = 5.0
"""Of the machine or of the time. So much makes a run that needs all of it 5% slower, which is the smallest difference
that most comparisons ask for."""
QUIET_CORES = 0.15
"""What a machine of two cores takes for itself and for the runner was 0.05 to 0.08 cores; at 0.4 cores, two processes
took 28% longer."""
IDLE_CORES = 1.0
"""As long as a whole core is idle, no process of ours waits for one, however much others take of the rest."""
_SWAPPED = "swapped_bytes_per_second"
MOST_SWAPPED = 1_000_000.0
"""Bytes per second: 250 pages, each of which takes a disk about 0.1 ms, are 2.5% of the time."""


def disturbances(record: Record) -> list[str]:
    """Return what disturbed a run, each with its figure, as far as its nodes have reported their load."""
    return [what for _, found in _by_machine(record) for what in found]


def is_load_known(record: Record) -> bool:
    """Return whether each node of a run has reported what others took of its machine."""
    facts, told = _facts(record), {"cpu_percent", "own_cpu_percent"}
    reported = {load.node for load in record.load if facts[load.node].get("machine_cores") and told <= load.mean.keys()}
    return bool(reported) and reported >= {rank.node for rank in record.ranks}


def disturbances_of_nodes(record: Record) -> dict[int, list[str]]:
    """Return for each node what disturbed the machine that it is on."""
    return {load.node: found for loads, found in _by_machine(record) for load in loads}


def _facts(record: Record) -> dict[int, dict[str, Any]]:
    """Return what the first rank of each node says of it."""
    return defaultdict(dict, {rank.node: rank.facts for rank in reversed(record.ranks)})


def _by_machine(record: Record) -> list[tuple[list[Load], list[str]]]:
    """Return the nodes on each machine, which may be several, and what disturbed it."""
    facts, machines = _facts(record), defaultdict(list)
    for load in record.load:
        machines[facts[load.node].get("machine") or load.node].append(load)
    found = []
    for loads in machines.values():
        cores = facts[loads[0].node].get("machine_cores")
        found.append((loads, [*_others([load.mean for load in loads], cores), *_hindered(loads)]))
    return found


def _others(means: list[dict[str, float]], cores: int | None) -> list[str]:
    """Return what processes that are none of the run's took, if ours had to wait for them."""
    ours = [mean["own_cpu_percent"] for mean in means if "own_cpu_percent" in mean]
    used = [mean["cpu_percent"] for mean in means if "cpu_percent" in mean]
    if not cores or not used or len(ours) < len(means):
        return []
    total = sum(used) / len(used)
    interrupts = sum(mean.get("interrupts_percent", 0.0) for mean in means) / len(means)
    others = cores * (total - interrupts - sum(ours)) / 100
    if others <= max(QUIET_CORES, cores * MOST_PERCENT / 100) or cores * (1 - total / 100) >= IDLE_CORES:
        return []
    return [f"other processes took {others:.2f} of {cores} cores"]


def _hindered(loads: list[Load]) -> list[str]:
    """Return what else kept a machine from its work; nodes on one machine report the same."""
    hindrances = {
        "cpu_throttled_percent": "the CPU was throttled by its temperature",
        "gpu_throttled_percent": "GPUs were throttled by temperature or power supply",
        "gpu_shared_percent": "other processes were on the GPUs",
    }
    most = {name: max(load.mean.get(name, 0.0) for load in loads) for name in (*hindrances, _SWAPPED)}
    found = [f"{what} {most[name]:.0f}% of the time" for name, what in hindrances.items() if most[name] > MOST_PERCENT]
    if most[_SWAPPED] > MOST_SWAPPED:
        found.append(f"the machine swapped {most[_SWAPPED] / 1e6:.1f} MB/s")
    return found
