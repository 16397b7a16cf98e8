"""The runs that measured a network -> what carries the messages of a layout, and what its neighbours cost."""

import math
import re
import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, replace

from runner.core.layout import Layout
from runner.core.values import positive
from runner.records.schema import Record
from runner.report.run_summary import RunSummary
from runner.tools.predict.base import DISTURBED, DISTURBED_SPREAD, Base
from runner.tools.predict.figures import Figure, between, of_sample
from runner.tools.predict.links import Assumed
from runner.tools.predict.model import Inputs, Place
from runner.tools.predict.network import Network, Point

_SUM = re.compile(r"all_reduce_([0-9]{1,12})_seconds")
_ELSEWHERE = 0.2
"""Spread of what was measured in another layout of the same kind."""
_GPU_NEIGHBOURS = 0.02


@dataclass(frozen=True)
class Measured:
    """The network runs of one layout, the metrics of each, and the machine of each node, as far as one is reported."""

    layout: Layout
    runs: tuple[RunSummary, ...]
    metrics: tuple[dict[str, float], ...]
    machine_of: tuple[object, ...]

    @property
    def most_on_a_machine(self) -> int:
        """Processes of the machine that has most."""
        counts: Counter[object] = Counter()
        for node, processes in enumerate(self.layout.processes):
            counts[self.machine_of[node] if node < len(self.machine_of) else node] += processes
        return max(counts.values())

    def values(self, name: str) -> list[float]:
        """Return a figure of each run that has it."""
        return [value for metrics in self.metrics if (value := positive(metrics.get(name))) is not None]


@dataclass(frozen=True)
class Setting:
    """A layout with what is known of it by network runs: its place and all figures.

    `lacks` says what is not known, and what it is taken to be; if it is `missing`, a network run here would say it.
    """

    place: Place
    inputs: Inputs
    runs: tuple[RunSummary, ...] = ()
    lacks: tuple[str, ...] = ()
    missing: bool = False


def measured_of(pairs: list[tuple[RunSummary, Record]]) -> list[Measured]:
    """Sort network runs by their layout."""
    groups: dict[str, list[tuple[RunSummary, Record]]] = defaultdict(list)
    for run, record in pairs:
        groups[run.layout].append((run, record))
    found = []
    for layout, own in groups.items():
        machines: dict[int, object] = {}
        for rank in own[-1][1].ranks:
            machines.setdefault(rank.node, rank.facts.get("machine") or rank.node)
        runs, metrics = tuple(run for run, _ in own), tuple(dict(record.metrics) for _, record in own)
        found.append(Measured(Layout.parse(layout), runs, metrics, tuple(map(str, machines.values()))))
    return found


def setting_of(layout: Layout, base: Base, measured: list[Measured], assumed: Assumed) -> Setting:
    """Return what is known of a layout: by runs at the same layout, else by others of the same kind."""
    strong = base.first.scaling != "weak"
    if layout.world_size == 1:
        return Setting(Place(layout, strong, 0.0, None), base.inputs)
    at = _nearest(layout, measured)
    network, inputs, lacks = _network(layout, base, at, assumed)
    # Nodes may be one machine, but who asks for a link wants machines of their own.
    together = at is not None and layout.nodes > 1 and len(set(at.machine_of)) == 1 and not assumed.has_link
    on_machine = layout.world_size if together else max(layout.processes)
    inputs, more = _neighbours(layout, on_machine, base, inputs, at)
    if at and any(run.disturbed for run in at.runs):
        inputs, more = _less_certain(inputs), (*more, f"the network of {at.layout} without {DISTURBED}")
    crowded = _crowded(on_machine, base) if base.first.device == "cpu" else 0.0
    exact = at is not None and at.layout == layout
    place = Place(layout, strong, crowded, network)
    return Setting(place, inputs, at.runs if at else (), (*lacks, *more), missing=not exact)


def _less_certain(inputs: Inputs) -> Inputs:
    """Widen the figures that other work on the machine changes."""
    names = ("slower", "node", "waiting", "latency", "transfer", "processor", "memory", "cast")
    figures: dict[str, Figure] = {name: getattr(inputs, name) for name in names}
    wider = {name: replace(each, spread=math.hypot(each.spread, DISTURBED_SPREAD)) for name, each in figures.items()}
    return replace(inputs, **wider)


def _nearest(layout: Layout, measured: list[Measured]) -> Measured | None:
    """Return the runs at this layout, else at one of the same kind (one node, or several) with about as many ranks."""
    alike = [runs for runs in measured if (runs.layout.nodes > 1) == (layout.nodes > 1)]

    def distance(runs: Measured) -> tuple[bool, float, str]:
        further = abs(math.log(runs.layout.world_size / layout.world_size))
        return runs.layout != layout, further, str(runs.layout)

    return min(alike, key=distance, default=None)


def _network(
    layout: Layout, base: Base, at: Measured | None, assumed: Assumed
) -> tuple[Network | None, Inputs, tuple[str, ...]]:
    """Return what carries the messages, and how far its figures may be wrong."""
    inputs = base.inputs
    points = _points(at) if at else ()
    latency = of_sample(at.values("latency_seconds"), 0.2, 0.4) if at and at.values("latency_seconds") else None
    bandwidth = of_sample(at.values("bytes_per_second"), 0.07, 0.15) if at and at.values("bytes_per_second") else None
    link = assumed.has_link and layout.nodes > 1
    if link:
        latency = Figure(assumed.latency, 0.1) if assumed.latency else latency or Figure(1.5e-4, 0.7)
        bandwidth = Figure(assumed.bandwidth, 0.05) if assumed.bandwidth else bandwidth
    if latency is None or bandwidth is None:
        return None, inputs, ()
    elsewhere = 0.0 if link or (at and at.layout == layout) else _ELSEWHERE
    sums = bandwidth
    if at and points and not link:
        of_runs = [_points(replace(at, metrics=(metrics,))) for metrics in at.metrics]
        sums = of_sample([own[-1].seconds for own in of_runs if own], 0.07, 0.12)  # the largest sum of each run
    inputs = replace(
        inputs,
        latency=Figure(1.0, math.hypot(latency.spread, elsewhere)),
        transfer=Figure(1.0, math.hypot(sums.spread, elsewhere)),
        processor=Figure(1.0, math.hypot(0.15 if points else 0.6, elsewhere)),
        half=_half(at, base),
        memory=_rate("memory_bytes_per_second", at, base, (1e10, 1e12)),
        cast=_rate("cast_bytes_per_second", at, base, (1e9, 5e11)),
    )
    lacks = () if points or link else (f"sums at {layout}: taken to be a ring of single messages",)
    ranks = at.layout.world_size if at else layout.world_size
    return Network(ranks, points, latency.value, bandwidth.value, link), inputs, lacks


def _points(at: Measured) -> tuple[Point, ...]:
    """Return the sums that were measured, each the typical one of all runs."""
    names = {name for metrics in at.metrics for name in metrics}
    sizes = sorted({int(match[1]) for name in names if (match := _SUM.fullmatch(name))} - {0})
    found = []
    for size in sizes:
        seconds = at.values(f"all_reduce_{size}_seconds")
        processor = at.values(f"all_reduce_{size}_processor_seconds") or [0.0]
        found += [Point(size, statistics.geometric_mean(seconds), statistics.median(processor))] if seconds else []
    return tuple(found)


def _half(at: Measured | None, base: Base) -> Figure:
    """Return what numbers of half the size cost more than as many bytes of whole ones."""
    pattern = re.compile("half_" + _SUM.pattern)
    ratios = []
    for metrics in at.metrics if at else ():
        for name, value in metrics.items():
            whole = positive(metrics.get(name.removeprefix("half_")))
            ratios += [value / whole] if pattern.fullmatch(name) and whole and positive(value) else []
    if ratios:
        return of_sample(ratios, 0.05, 0.1)
    return between(1.0, 3.0) if base.first.device == "cpu" else between(1.0, 1.2)


def _rate(name: str, at: Measured | None, base: Base, usual: tuple[float, float]) -> Figure:
    """Return how many bytes per second a rank works on: as measured, else what a core or a GPU usually does."""
    if at and (rates := at.values(name)):
        return of_sample(rates, 0.3, 0.4)
    return Figure(usual[base.first.device != "cpu"], 0.6)


def _neighbours(
    layout: Layout, on_machine: int, base: Base, inputs: Inputs, at: Measured | None
) -> tuple[Inputs, tuple[str, ...]]:
    """Return what processes of one machine cost each other, and what slower nodes and ranks cost all."""
    if base.first.device != "cpu":
        return replace(inputs, slower=Figure(1.0, _GPU_NEIGHBOURS), waiting=Figure(0.01, 0.7)), ()
    compute, memory = (at.values(f"{name}_slowdown") if at else [] for name in ("compute", "memory"))
    lacks: tuple[str, ...] = ()
    if compute and memory and at:
        ends = [statistics.geometric_mean(values) for values in (compute, memory)]
        ends = [_scaled(end, at.most_on_a_machine, on_machine, base) for end in ends]
        slower = between(max(0.9, min(ends)), max(0.9, *ends))
        slower = Figure(slower.value, math.hypot(slower.spread, 0.03 if at.layout == layout else 0.1))
    else:
        crowding = _crowding(on_machine, base)
        slower = Figure(1.0, 0.02)
        if on_machine > 1:
            slower = between(crowding, 1.25 * crowding)
            lacks = (f"what {on_machine} processes on a machine cost each other: taken to be {slower.value - 1:.0%}",)
    waiting = at.values("waiting_share") if at else []
    known = max(0.005, statistics.fmean(waiting)) if waiting else 0.02
    of = at.layout.world_size if at and waiting else 2
    more = math.sqrt(math.log(layout.world_size + 1) / math.log(of + 1))  # the largest of more normal numbers
    node = at.values("node_slowdown") if at and at.layout == layout else []
    if len(set(layout.processes)) > 1 and not node:
        lacks = (*lacks, f"how unlike the nodes of {layout} are: taken to be alike")
    # Something that came in between makes one node look slow, and none look fast: the least counts.
    slowest = Figure(min(node), 0.04) if node else Figure(1.0, 0.0 if layout.nodes == 1 else 0.03)
    return replace(inputs, slower=slower, waiting=Figure(known * more, 0.7), node=slowest), lacks


def _scaled(slowdown: float, measured_at: int, on_machine: int, base: Base) -> float:
    """Return what neighbours cost: each as much by what all of them share, and what has no core waits for one."""
    each = (slowdown - 1) / (measured_at - 1) if measured_at > 1 else 0.05 * (on_machine > 1)
    return max(0.9, 1 + each * (on_machine - 1)) * _crowding(on_machine, base)


def _crowding(on_machine: int, base: Base) -> float:
    cores = base.first.cores
    return max(1.0, on_machine * base.threads / cores) if cores else 1.0


def _crowded(on_machine: int, base: Base) -> float:
    """Return which part of an exchange's CPU time no idle core takes; more processes than cores wait for it longer."""
    cores = base.first.cores
    if not cores:
        return 1.0
    idle = max(0, cores - on_machine * base.threads)
    return max(0.0, 1 - idle / on_machine) * _crowding(on_machine, base)
