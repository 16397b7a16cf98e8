"""Unlike processors in balance: every rank's share of the global batch follows its speed (`--balance`).

The slowest rank decides how long a step takes. With shares in the ratio of the ranks' speeds all are busy equally long.
A program asks for the shares wherever it cuts a batch, and reports each step::

    balance = Balance(args, run, batch_size)
    batches = Batches(..., shares=balance.shares)
    ...
    balance.measure(exchange, step, draw)  # in the warm-up, before it is undone
    for batch in batches:
        step(batch)
        balance.stepped(batch.samples)
    balance.finish()

Shares are whole numbers, and all ranks compute the same ones: from the same figures, by sums, products and quotients
alone, which every processor rounds alike. docs/methods.md says what a run with measured shares is worth.
"""

import re
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import ceil, lcm

from trainkit import distributed, sharding
from trainkit.communication.exchange import Exchange
from trainkit.errors import Refusal, one_line
from trainkit.run import Run
from trainkit.sharding import Any_Batch
from trainkit.throttling import quota_cores

OFF, MEASURED = "off", "measured"
PARTS = 1_000
"""Of each rank in the mean: how finely measured shares are told apart."""
LEAST_GAIN = 0.02
"""By so much of a step's time at least other shares have to shorten it; less is noise."""
NEWER = 0.3
"""The least weight of a new measurement beside all that were before it: the first ones count alike."""
SETTLE_SECONDS, WARM_SECONDS, WARM_ROUNDS = 0.3, 1.0, 3
STRETCH_SECONDS, SHORTEST_STRETCH, LONGEST_STRETCH = 5.0, 8, 1_000
"""About how long the ranks are watched between two decisions, and the least and most steps."""
LONGEST_SCHEDULE = 3_000
"""Characters of the shares of a whole run that its last event can hold."""
_SHARE = re.compile(r"\d{1,6}(\.\d{1,6})?", re.ASCII)
_STEP = re.compile(r"\d{1,9}", re.ASCII)
Shares = tuple[int, ...]


class Balance:
    """The shares of all ranks, step by step.

    Refusal if this run cannot have the shares that `args` name.

    Args:
        args: with `--balance`.
        run: joined before any method is called.
        batch_size: the global one that is shared, for what a change would gain.
    """

    def __init__(self, args: Namespace, run: Run, batch_size: int) -> None:
        self._run = run
        self._batch_size = batch_size
        self._measures = args.balance == MEASURED and run.world_size > 1
        self._given = parse(args.balance, run.world_size)
        self._costs: list[float] | None = None  # seconds a sample of each rank
        self._quota = quota_cores()
        self._steps = self._samples = 0
        self._since = (0, 0, 0.0, 0.0)  # steps, samples, busy and CPU seconds when the stretch began
        self._decide_at, self._decisions = SHORTEST_STRETCH, 0
        self._schedule = ""
        self._shares: Shares | None = None
        if self._given:
            self._set(self._given[1], 0.0)
        elif self._measures:
            self._set((PARTS,) * run.world_size, 0.0)

    def shares(self) -> Shares | None:
        """Return each rank's share of the next batch; None if all ranks have equal ones."""
        return self._shares

    def measure(self, exchange: Exchange, step: Callable[[Any_Batch], object], draw: Callable[[], Any_Batch]) -> bool:
        """Measure the ranks' speeds, each by steps of its own, and set the shares; all ranks call it.

        They compute at the same time and exchange nothing, so what the model has become has to be undone. Then they try
        the new shares, because not all of a step shrinks with its samples. Return whether the shares are others now, so
        that no step of all ranks has been taken with them.

        Args:
            exchange: what `step`, one update, uses.
            step: one update.
            draw: returns a batch of the training, cut by the shares of the moment.
        """
        before = self._shares
        for number in range(1, 1 + (WARM_ROUNDS if self._measures else 0)):
            batch = draw()
            distributed.barrier()
            with exchange.alone():
                seconds = self._seconds_alone(lambda: step(batch))  # noqa: B023 - called at once
            self._learn(self._gathered(seconds / max(batch.samples, 1)), 1 / number)
            if not self._propose():
                break
        return self._shares != before

    def stepped(self, samples: int) -> None:
        """Note a step on so many samples of this rank, and change the shares from the next one on if that is due."""
        self._steps += 1
        self._samples += samples
        if self._steps + 1 in self._given:
            self._set(self._given[self._steps + 1], 0.0)
        if self._measures and self._steps >= self._decide_at:
            self._follow()

    def finish(self) -> None:
        """Report the argument that repeats this run with its shares bit for bit (event `repeat_with`), from rank 0."""
        if self._measures and self._run.first:
            fits = len(self._schedule) <= LONGEST_SCHEDULE
            self._run.log.point("repeat_with", {"balance": self._schedule} if fits else None)

    def _follow(self) -> None:
        """Look at the steps since the last decision, decide, and say when the next one is due."""
        steps, samples, busy, cpu = self._since
        self._since = now = (self._steps, self._samples, *self._run.time_use.spent())
        seconds = self._limited(now[2] - busy, now[3] - cpu)
        with self._run.exchanging():
            found = self._gathered(seconds / max(now[1] - samples, 1), seconds / (now[0] - steps))
        slowest = max(found[self._run.world_size :])
        # The first of them takes the place of what the warm-up has measured: its steps have exchanged nothing.
        self._decisions += 1
        self._learn(found[: self._run.world_size], max(NEWER, 1 / self._decisions))
        stretch = ceil(STRETCH_SECONDS / max(slowest, STRETCH_SECONDS / LONGEST_STRETCH))
        self._decide_at = self._steps + max(stretch, SHORTEST_STRETCH)
        self._propose()

    def _learn(self, costs: list[float], weight: float) -> None:
        """Take newly measured seconds a sample of each rank into the mean of what is known, with this weight."""
        newer = relative(costs)
        older = self._costs or newer
        self._costs = [(1 - weight) * old + weight * new for old, new in zip(older, newer, strict=True)]

    def _propose(self) -> bool:
        """Set shares in the ratio of the speeds if that gains enough; return whether it did."""
        if self._costs is None or self._shares is None:
            return False
        found = in_ratio(self._costs)
        gain = step_seconds(self._costs, self._batch_size, self._shares) / step_seconds(
            self._costs, self._batch_size, found
        )
        if gain < 1 + LEAST_GAIN:
            return False
        self._set(found, gain - 1)
        return True

    def _set(self, shares: Shares, gain: float) -> None:
        """Take shares from the next step on, and report them."""
        self._shares = shares
        words, step = ",".join(map(str, shares)), self._steps + 1
        self._schedule = words if step == 1 else f"{self._schedule}/{step}:{words}"
        if self._run.first:
            self._run.log.point("balance", words, step=step, measured=self._measures, expected_gain=round(gain, 4))

    def _seconds_alone(self, call: Callable[[], object]) -> float:
        """Return the seconds of a call, after some that are not counted."""
        self._calls(call, SETTLE_SECONDS)
        began, cpu = time.monotonic(), time.process_time()
        count = self._calls(call, WARM_SECONDS)
        return self._limited(time.monotonic() - began, time.process_time() - cpu) / count

    def _calls(self, call: Callable[[], object], seconds: float) -> int:
        """Call until the seconds have passed, and say how often."""
        count, until = 0, time.monotonic() + seconds
        while not count or time.monotonic() < until:
            call()
            self._run.wait_for_devices()
            count += 1
        return count

    def _limited(self, seconds: float, cpu_seconds: float) -> float:
        """Return how long computing took, or how long a CPU quota allows it to take, if that is longer.

        A quota counts by periods of, for example, 0.1 s. Where a rank waits for others in between, its own work may fit
        into what each period grants, and seems faster than it could go on.
        """
        if self._quota is None:
            return seconds
        return max(seconds, cpu_seconds * self._run.local_world_size / self._quota)

    def _gathered(self, *own: float) -> list[float]:
        """Return the first figure of each rank, then the second of each, and so on."""
        ranks = range(self._run.world_size)
        return distributed.total(*(figure if rank == self._run.rank else 0.0 for figure in own for rank in ranks))


def relative(costs: Sequence[float]) -> list[float]:
    """Return the seconds a sample of each rank as parts of their sum; one of 0 was too fast for the clock."""
    return parts_of_sum([max(cost, 1e-9) for cost in costs])


def in_ratio(costs: Sequence[float]) -> Shares:
    """Return the shares with which all ranks are busy equally long, `PARTS` in the mean."""
    speeds = parts_of_sum([1 / cost for cost in costs])
    return tuple(max(1, round(PARTS * len(speeds) * speed)) for speed in speeds)


def parts_of_sum(values: Sequence[float]) -> list[float]:
    """Return values above 0 divided by their sum."""
    whole = 0.0
    for value in values:  # from Python 3.12 on `sum` rounds otherwise, and the nodes may have different ones
        whole += value
    return [value / whole for value in values]


def step_seconds(costs: Sequence[float], batch_size: int, shares: Shares) -> float:
    """Return how long the slowest rank computes for a batch that is cut by shares, in the unit of the costs."""
    places = sharding.cuts(batch_size, shares)
    return max(cost * (stop - start) for cost, start, stop in zip(costs, places, places[1:], strict=False))


def parse(text: str, world_size: int) -> dict[int, Shares]:
    """Read `--balance`: the shares from a step on, by step; nothing for `off` and `measured`.

    `2,1` is for all steps, and `2,1/97:3,2` changes at step 97; steps count from 1.

    Refusal of anything else, and of shares of another number of processes.
    """
    if text in (OFF, MEASURED):
        return {}
    found: dict[int, Shares] = {}
    for number, part in enumerate(text.split("/")):
        step, separator, words = part.rpartition(":")
        if bool(separator) != bool(number) or (separator and not _STEP.fullmatch(step)):
            raise _refused(
                text, f"write {OFF}, {MEASURED}, shares (2,1) or changes of them from a step on (2,1/97:3,2)"
            )
        first = int(step or 1)
        if found and first <= max(found):
            raise _refused(text, f"step {first} does not come after step {max(found)}")
        found[first] = _shares(text, words.split(","))
        if len(found[first]) != world_size:
            count = len(found[first])
            raise _refused(
                text, f"{count} share{'s' * (count != 1)} for {world_size} process{'es' * (world_size != 1)}"
            )
    return found


def _shares(text: str, words: list[str]) -> Shares:
    """Return shares as whole numbers in the same ratio."""
    for word in words:
        if not _SHARE.fullmatch(word.strip()):
            raise _refused(text, f"{one_line(word)[:40] or 'nothing'} is no share: {OFF}, {MEASURED} or numbers (2,1)")
    values = [Fraction(word.strip()) for word in words]
    if not all(values):
        raise _refused(text, "a share is above 0")
    whole = lcm(*(value.denominator for value in values))
    return tuple(int(value * whole) for value in values)


def _refused(text: str, why: str) -> Refusal:
    return Refusal(f"--balance {one_line(text)[:80]}: {why}")
