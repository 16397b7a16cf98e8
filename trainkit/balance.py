"""Divide the global batch among ranks in proportion to their speed (`--balance`).

The slowest rank determines the time of a step, so unequal processors should get unequal shares. A program asks for the
shares wherever it cuts a batch::

    balance = Balance(args, run, batch_size)
    batches = Batches(..., shares=balance.shares)
    ...
    balance.measure(exchange, step, draw)  # in the warm-up, before it is undone

Every rank computes the same integers, because sums, products and quotients are rounded alike by every processor.
experiments/README.md says how far results with measured shares can be trusted.
"""

import re
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import lcm

from trainkit import distributed, sharding
from trainkit.communication.exchange import Exchange
from trainkit.errors import Refusal, one_line
from trainkit.run import Run
from trainkit.sharding import Any_Batch
from trainkit.throttling import quota_cores

OFF, MEASURED = "off", "measured"
PARTS = 1_000
"""Mean share of a rank: the resolution of measured shares."""
LEAST_GAIN = 0.02
"""Smallest relative gain in step time for which shares are changed; less is noise."""
SETTLE_SECONDS, MEASURED_SECONDS, ROUNDS = 0.3, 1.0, 3
_SHARE = re.compile(r"\d{1,6}(\.\d{1,6})?", re.ASCII)
Shares = tuple[int, ...]


class Balance:
    """The batch shares of all ranks; raises Refusal if `args.balance` does not fit the run.

    Args:
        args: with `--balance` and `--warmup-steps`.
        run: joined before any method is called.
        batch_size: samples of a global batch, to estimate what other shares would gain.
    """

    def __init__(self, args: Namespace, run: Run, batch_size: int) -> None:
        self._run = run
        self._batch_size = batch_size
        self._shares = parse(args.balance, run.world_size)
        self._measures = args.balance == MEASURED and run.world_size > 1
        self._quota = quota_cores()
        if self._measures:
            if not args.warmup_steps:
                raise Refusal("--balance measured: the shares are measured in the warm-up, and --warmup-steps is 0")
            self._shares = (PARTS,) * run.world_size
        elif self._shares:
            self._report()

    def shares(self) -> Shares | None:
        """Return each rank's share of the next batch; None if all shares are equal."""
        return self._shares

    def measure(self, exchange: Exchange, step: Callable[[Any_Batch], object], draw: Callable[[], Any_Batch]) -> bool:
        """Measure the ranks' speeds and set the shares; all ranks must call it.

        The ranks take steps without an exchange. The caller must undo these steps. Then the ranks measure again with
        the new shares, because not all of a step's time shrinks with its samples. Return whether the shares have
        changed. The event `repeat_with` holds the argument that repeats this run with the same shares, bit for bit.

        Args:
            exchange: the exchange that `step` uses.
            step: one update of the model.
            draw: returns a training batch, cut by the current shares.
        """
        if not self._measures or self._shares is None:
            return False
        even, costs, gain = self._shares, [0.0] * self._run.world_size, 1.0
        for number in range(1, ROUNDS + 1):
            batch = draw()
            distributed.barrier()
            with exchange.alone():
                seconds = self._seconds_alone(lambda: step(batch))  # noqa: B023 - called at once
            own = seconds / max(batch.samples, 1)
            ranks = range(self._run.world_size)
            newer = relative(distributed.total(*(own if rank == self._run.rank else 0.0 for rank in ranks)))
            costs = [(1 - 1 / number) * old + new / number for old, new in zip(costs, newer, strict=True)]  # mean
            found = in_ratio(costs)
            now, then = (step_seconds(costs, self._batch_size, shares) for shares in (self._shares, found))
            if now < (1 + LEAST_GAIN) * then:
                break
            self._shares, gain = found, step_seconds(costs, self._batch_size, even) / then
        words = self._report(gain)
        if self._run.first:
            self._run.log.point("repeat_with", {"balance": words})
        return self._shares != even

    def _report(self, gain: float = 1.0) -> str:
        """Report the shares (event `balance`, rank 0 only) and return them in the form that `--balance` takes."""
        words = ",".join(map(str, self._shares or ()))
        if self._run.first:
            self._run.log.point("balance", words, measured=self._measures, expected_gain=round(gain - 1, 4))
        return words

    def _seconds_alone(self, call: Callable[[], object]) -> float:
        self._calls(call, SETTLE_SECONDS)
        began, cpu = time.monotonic(), time.process_time()
        count = self._calls(call, MEASURED_SECONDS)
        return self._limited(time.monotonic() - began, time.process_time() - cpu) / count

    def _calls(self, call: Callable[[], object], seconds: float) -> int:
        count, until = 0, time.monotonic() + seconds
        while not count or time.monotonic() < until:
            call()
            self._run.wait_for_devices()
            count += 1
        return count

    def _limited(self, seconds: float, cpu_seconds: float) -> float:
        """Return the time of a computation, or the longer time that a CPU quota would allow it.

        A quota applies to periods of, for example, 0.1 s: work that ends early in a period looks faster than it is.
        """
        if self._quota is None:
            return seconds
        return max(seconds, cpu_seconds * self._run.local_world_size / self._quota)


def relative(costs: Sequence[float]) -> list[float]:
    """Return the ranks' seconds per sample, scaled to a sum of 1; 0 counts as 1 ns."""
    return parts_of_sum([max(cost, 1e-9) for cost in costs])


def in_ratio(costs: Sequence[float]) -> Shares:
    """Return the shares with which all ranks take equally long, with a mean share of `PARTS`."""
    speeds = parts_of_sum([1 / cost for cost in costs])
    return tuple(max(1, round(PARTS * len(speeds) * speed)) for speed in speeds)


def parts_of_sum(values: Sequence[float]) -> list[float]:
    """Return values divided by their sum."""
    whole = 0.0
    for value in values:  # `sum` rounds differently from Python 3.12 on, and nodes may have different versions
        whole += value
    return [value / whole for value in values]


def step_seconds(costs: Sequence[float], batch_size: int, shares: Shares) -> float:
    """Return the time of the slowest rank for a batch cut by shares, in the unit of the costs."""
    places = sharding.cuts(batch_size, shares)
    return max(cost * (stop - start) for cost, start, stop in zip(costs, places, places[1:], strict=False))


def parse(text: str, world_size: int) -> Shares | None:
    """Read `--balance`: shares by rank as integers in the given ratio; None for `off` and `measured`.

    Raises Refusal if the text is invalid or names shares for another number of processes.
    """
    if text in (OFF, MEASURED):
        return None
    refused = f"--balance {one_line(text)[:80]}"
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if not _SHARE.fullmatch(word):
            shown = one_line(word)[:40] or "nothing"
            raise Refusal(f"{refused}: {shown} is not a share: write {OFF}, {MEASURED} or numbers by rank (2,1)")
    values = [Fraction(word) for word in words]
    if not all(values):
        raise Refusal(f"{refused}: a share must be above 0")
    if len(values) != world_size:
        shares, processes = "s" * (len(values) != 1), "es" * (world_size != 1)
        raise Refusal(f"{refused}: {len(values)} share{shares} for {world_size} process{processes}")
    whole = lcm(*(value.denominator for value in values))
    return tuple(int(value * whole) for value in values)
