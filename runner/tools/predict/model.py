"""One step in several processes, from one step in one process: pure arithmetic on figures.

A rank computes its share of the batch, slowed by its neighbours and on the slowest node; DistributedDataParallel
exchanges each bucket of gradients while backward goes on; what is not over with backward is waited for. Where each core
has a process, the CPU time of the exchange is taken from the computing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import NamedTuple

from runner.core.layout import Layout
from runner.tools.predict.communication import Communication
from runner.tools.predict.figures import Figure
from runner.tools.predict.network import Network
from runner.tools.predict.step import Step

NONE, ONE = Figure(0.0), Figure(1.0)


@dataclass(frozen=True)
class Inputs:
    """What is known of a step and of a layout, each figure with how far it may be wrong.

    Attributes:
        seconds: a step of one process.
        fixed: the part of it that does not shrink with the batch, above all the optimizer.
        forward, backward: parts of it.
        slower: by which factor neighbours on the machine slow each process down.
        node: by which factor the slowest node is slower than the one whose step was timed.
        waiting: the part by which a step is longer on its slowest rank.
        latency, transfer, processor: by which factors the network's figures may be wrong.
        half: seconds of a sum of numbers of half the size, over those of as many bytes of whole ones.
        memory: bytes per second of a rank's memory.
        cast: bytes per second that a rank makes half as long and long again.
        whole: by which factor all of it may be wrong: what the model leaves out.
    """

    seconds: Figure
    fixed: Figure
    forward: Figure
    backward: Figure
    slower: Figure = ONE
    node: Figure = ONE
    waiting: Figure = NONE
    latency: Figure = ONE
    transfer: Figure = ONE
    processor: Figure = ONE
    half: Figure = ONE
    memory: Figure = Figure(1e10)  # noqa: RUF009 - it is frozen
    cast: Figure = Figure(1e9)  # noqa: RUF009
    whole: Figure = ONE

    def central(self) -> Values:
        """Return all figures as they are."""
        return Values(*(getattr(self, name).value for name in _NAMES))

    def drawn(self, normal: Callable[[], float]) -> Values:
        """Draw what all figures may really be."""
        return Values(*(getattr(self, name).drawn(normal) for name in _NAMES))


class Values(NamedTuple):
    """The figures of `Inputs` as numbers."""

    seconds: float
    fixed: float
    forward: float
    backward: float
    slower: float
    node: float
    waiting: float
    latency: float
    transfer: float
    processor: float
    half: float
    memory: float
    cast: float
    whole: float


_NAMES = tuple(field.name for field in fields(Inputs))


@dataclass(frozen=True)
class Place:
    """Where the processes of a layout run.

    Attributes:
        layout: nodes and processes.
        strong: whether the batch of a step is that of all processes together.
        crowded: the part of an exchange's CPU time that is taken from the computing: 1 if each core has a process.
        network: what carries the messages; None for one process.
    """

    layout: Layout
    strong: bool
    crowded: float
    network: Network | None


class Sum(NamedTuple):
    """One exchange of a step: seconds by cause, when it may begin, and whether its numbers are of half the size."""

    ready: float
    latency: float
    transfer: float
    processor: float
    half: bool


@dataclass(frozen=True)
class Parts:
    """The seconds of a step in several processes: as they would be without any loss, and each loss.

    `fixed` does not shrink with the batch, `neighbours` is lost to processes on the same machine, `node` to the slowest
    node, `waiting` to the slowest rank, `processor`, `latency` and `bandwidth` to the exchange, and `compression` to
    making it smaller, or to copies of it.
    """

    ideal: float
    fixed: float = 0.0
    neighbours: float = 0.0
    node: float = 0.0
    waiting: float = 0.0
    processor: float = 0.0
    latency: float = 0.0
    bandwidth: float = 0.0
    compression: float = 0.0

    @property
    def losses(self) -> dict[str, float]:
        """The seconds that are lost, by cause."""
        return {name: value for name, value in vars(self).items() if name != "ideal"}

    @property
    def seconds(self) -> float:
        """The step."""
        return self.ideal + sum(self.losses.values())


class Cell:
    """A step of a program in one layout with one communication; what does not depend on single figures is made once."""

    def __init__(self, step: Step, place: Place, communication: Communication) -> None:
        self.ranks = place.layout.world_size
        self._place = place
        self._every = communication.every(step.steps / (1 if place.strong else self.ranks), step.parts)
        self._memory_bytes, self._cast_bytes = communication.memory_bytes(step), communication.cast_bytes(step)
        self._sums: list[Sum] = []
        self._before = Sum(0.0, 0.0, 0.0, 0.0, False)
        network = place.network
        if network is None:
            return
        for exchange in communication.exchanges(step):
            each = network.cost(exchange.size / exchange.calls, self.ranks)
            latency, transfer, processor = (exchange.calls * value for value in each)
            self._sums.append(Sum(exchange.ready, latency, transfer, processor, exchange.half))
        if step.broadcast_bytes and not communication.at_once:  # half of a sum's way, and nothing goes on meanwhile
            latency, transfer, processor = (value / 2 for value in network.cost(step.broadcast_bytes, self.ranks))
            self._before = Sum(0.0, latency, transfer, processor, False)

    def speedup(self, values: Values) -> float:
        """Return the speed-up against one process for the same work."""
        if self.ranks == 1:
            return 1.0
        ideal, _, waited = self._computed(values)
        exposed, busy = self._exposed(values, self._backward(values, waited))
        seconds = waited + (max(exposed, busy) + self._compression(values)) / self._every
        return self.ranks * ideal / (seconds * values.whole)

    def parts(self, values: Values) -> Parts:
        """Return where the step goes."""
        if self.ranks == 1:
            return Parts(values.seconds)
        ideal, computed, waited = self._computed(values)
        backward = self._backward(values, waited)
        exposed, busy = self._exposed(values, backward)
        without_latency, _ = self._exposed(values._replace(latency=0.0), backward)
        slowed = computed * values.slower
        on_node = slowed * values.node
        return Parts(
            ideal,
            fixed=computed - ideal,
            neighbours=slowed - computed,
            node=on_node - slowed,
            waiting=waited - on_node,
            # Where the processors are what is waited for, the network is not.
            processor=max(0.0, busy - exposed) / self._every,
            latency=(exposed - without_latency) / self._every,
            bandwidth=without_latency / self._every,
            compression=self._compression(values) / self._every,
        )

    def _compression(self, values: Values) -> float:
        """Return the seconds in which a rank makes its gradients smaller, and large again, or copies them."""
        return self._memory_bytes / values.memory + self._cast_bytes / values.cast

    def _computed(self, values: Values) -> tuple[float, float, float]:
        """Return a step without any loss, with what does not shrink, and as long as its slowest rank takes."""
        share = 1 / self.ranks if self._place.strong else 1.0
        fixed = min(1.0, max(0.0, values.fixed))
        computed = values.seconds * (fixed + (1 - fixed) * share)
        # Between two exchanges far apart, ranks that are slow now and then take turns.
        waiting = 1 + max(0.0, values.waiting) / math.sqrt(self._every)
        return values.seconds * share, computed, computed * values.slower * values.node * waiting

    def _backward(self, values: Values, computed: float) -> float:
        """Return the seconds of backward; what is neither forward nor backward does not shrink with the batch."""
        both = values.forward + values.backward
        rest = max(0.0, 1 - both) * values.seconds
        return max(0.0, computed - rest) * values.backward / both if both > 0 else 0.0

    def _exposed(self, values: Values, backward: float) -> tuple[float, float]:
        """Return the seconds of an exchange that backward does not hide, and its CPU time that computing lacks."""
        end = busy = 0.0
        assumed = self._place.network is not None and self._place.network.assumed
        for exchange in self._sums:
            half = values.half if exchange.half else 1.0
            # What numbers of half the size cost to add up was measured; a link that was not takes them as bytes.
            transfer = max(exchange.transfer, exchange.processor * half) if assumed else exchange.transfer * half
            end = max(end, exchange.ready * backward) + exchange.latency * values.latency + transfer * values.transfer
            busy += exchange.processor * half
        before = self._before
        whole = max(0.0, end - backward) + before.latency * values.latency + before.transfer * values.transfer
        return whole, (busy + before.processor) * values.processor * self._place.crowded
