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
MOST_SWAPPED = 1_000_000.0
"""Bytes per second: 250 pages, each of which takes a disk about 0.1 ms, are 2.5% of the time."""


class _Node:
    """What one node reported, on average, and the machine that it is on: nodes may share one."""

    def __init__(self, load: Load, facts: dict[str, Any]) -> None:
        self.number, self.mean = load.node, load.mean
        self.machine: object = facts.get("machine") or load.node
        self.cores: int | None = facts.get("machine_cores")


def disturbances(record: Record) -> list[str]:
    """Return what disturbed a run, each with its figure, as far as its nodes have reported their load."""
    return [what for _, found in _by_machine(record) for what in found]


def is_load_known(record: Record) -> bool:
    """Return whether each node of a run has reported what others took of its machine."""
    nodes = [node for alike, _ in _by_machine(record) for node in alike]
    reported = {node.number for node in nodes if node.cores and {"cpu_percent", "own_cpu_percent"} <= node.mean.keys()}
    return bool(reported) and reported >= {rank.node for rank in record.ranks}


def disturbances_of_nodes(record: Record) -> dict[int, list[str]]:
    """Return for each node what disturbed the machine that it is on."""
    return {node.number: found for nodes, found in _by_machine(record) for node in nodes}


def _by_machine(record: Record) -> list[tuple[list[_Node], list[str]]]:
    facts: dict[int, dict[str, Any]] = {}
    for rank in record.ranks:
        facts.setdefault(rank.node, rank.facts)
    machines: dict[object, list[_Node]] = defaultdict(list)
    for load in record.load:
        node = _Node(load, facts.get(load.node, {}))
        machines[node.machine].append(node)
    return [(nodes, [*_others(nodes), *_hindered(nodes)]) for nodes in machines.values()]


def _others(nodes: list[_Node]) -> list[str]:
    """Return what processes that are none of the run's took, if ours had to wait for them."""
    cores = nodes[0].cores
    ours = [node.mean["own_cpu_percent"] for node in nodes if "own_cpu_percent" in node.mean]
    used = [node.mean["cpu_percent"] for node in nodes if "cpu_percent" in node.mean]
    if not cores or not used or len(ours) < len(nodes):
        return []
    total = sum(used) / len(used)
    interrupts = sum(node.mean.get("interrupts_percent", 0.0) for node in nodes) / len(nodes)
    others = cores * (total - interrupts - sum(ours)) / 100
    if others <= max(QUIET_CORES, cores * MOST_PERCENT / 100) or cores * (1 - total / 100) >= IDLE_CORES:
        return []
    return [f"other processes took {others:.2f} of {cores} cores"]


def _hindered(nodes: list[_Node]) -> list[str]:
    """Return what else kept a machine from its work; nodes on one machine report the same."""

    def most(name: str) -> float:
        return max(node.mean.get(name, 0.0) for node in nodes)

    hindrances = {
        "cpu_throttled_percent": "the CPU was throttled by its temperature",
        "gpu_throttled_percent": "GPUs were throttled by temperature or power supply",
        "gpu_shared_percent": "other processes were on the GPUs",
    }
    found = [f"{what} {most(name):.0f}% of the time" for name, what in hindrances.items() if most(name) > MOST_PERCENT]
    if (swapped := most("swapped_bytes_per_second")) > MOST_SWAPPED:
        found.append(f"the machine swapped {swapped / 1e6:.1f} MB/s")
    return found
