"""The runs of an experiment with one process -> a step, and how far its figures may be wrong."""

import math
import statistics
from dataclasses import dataclass
from typing import Any

from runner.core.values import number, positive, whole
from runner.records.schema import Record
from runner.report.run_summary import RunSummary
from runner.tools.predict.figures import Figure, of_sample
from runner.tools.predict.model import Inputs
from runner.tools.predict.step import Bucket, Matrix, Step

PROFILE = "step_profile"
"""The fact in which a program reports what a step of one process is made of."""
_BUCKET = 25 * 2**20
_MOST_LISTED = 1_000
_LARGEST = 10**9
_SECONDS_ALONE, _SECONDS_LEAST = 0.06, 0.02
_SHARE_SPREAD, _FIXED_SPREAD = 0.05, 0.25
_MODEL_ERROR = 0.05
"""Of the whole step: what the model leaves out."""
DISTURBED, DISTURBED_SPREAD = "the other work that disturbed its runs", 0.15
"""What is not known where no quiet run is, and how much wider that makes a figure."""
_FORWARD, _BACKWARD, _FIXED = 0.3, 0.6, 0.08
"""Of a step whose run does not report its parts: backward takes about twice as long as forward."""


@dataclass(frozen=True)
class Base:
    """A step of one process, from runs of one cell; `lacks` says in words what these do not report."""

    runs: tuple[RunSummary, ...]
    step: Step
    inputs: Inputs
    threads: int
    lacks: tuple[str, ...] = ()

    @property
    def first(self) -> RunSummary:
        """A run, for what all share."""
        return self.runs[0]


def base_of(pairs: list[tuple[RunSummary, Record]], assumed_bytes: float | None) -> Base | str:
    """Make a base of the complete runs of one cell with one process, or say why there is none.

    `assumed_bytes` are those of the gradients, whatever the runs report.
    """
    timed = [(run, record, seconds) for run, record in pairs if (seconds := step_seconds(record))]
    if not timed:
        return "its one-process runs do not report their steps: only programs whose epochs count them are predicted"
    run, record, _ = timed[-1]
    told = [record.facts.get(PROFILE) for _, record, _ in timed]
    profiles = [each for each in told if isinstance(each, dict) and positive(each.get("gradient_bytes")) is not None]
    last = profiles[-1] if profiles else {}
    size = assumed_bytes or positive(last.get("gradient_bytes"))
    if size is None:
        return "its one-process runs do not report the bytes of their gradients: add --assume gradients=90MB"
    shares = [_shares(profile) for profile in profiles if positive(profile.get("seconds")) is not None]
    lacks = [] if shares else ["the parts of a step: forward and backward are taken to be 30% and 60% of it"]
    noisy = any(run.disturbed for run, _, _ in timed)
    lacks += [f"a step of one process without {DISTURBED}"] if noisy else []
    inputs = _inputs([value for _, _, value in timed], shares, DISTURBED_SPREAD if noisy else 0.0)
    step = _step(run, last, size, len(record.epochs))
    facts = record.ranks[0].facts if record.ranks else {}
    threads = whole(facts.get("threads"), 1, 10_000) or 1
    return Base(tuple(run for run, _, _ in timed), step, inputs, threads, tuple(lacks))


def step_seconds(record: Record) -> float | None:
    """Return the seconds of a step of a record; None if it does not say."""
    seconds = [positive(row.get("train_seconds")) for row in record.epochs]
    steps = [whole(row.get("steps"), 1, _LARGEST) for row in record.epochs]
    known = [(a, b) for a, b in zip(seconds, steps, strict=True) if a is not None and b is not None]
    if not known or len(known) < len(record.epochs):
        return None
    return sum(spent for spent, _ in known) / sum(count for _, count in known)


def _inputs(seconds: list[float], shares: list[tuple[float, float, float]], noise: float) -> Inputs:
    """Put the figures together; repeats say how far one run is from another."""
    fixed, forward, backward = (
        (statistics.fmean(column) for column in zip(*shares, strict=True)) if shares else (_FIXED, _FORWARD, _BACKWARD)
    )
    step = of_sample(seconds, _SECONDS_LEAST, _SECONDS_ALONE)
    # How far another run may be, and how far off the mean of these may be: of few runs it is the second.
    apart = max(step.spread, statistics.stdev([math.log(value) for value in seconds]) if len(seconds) > 1 else 0.0)
    spread = _SHARE_SPREAD if shares else 3 * _SHARE_SPREAD
    return Inputs(
        step,
        fixed=Figure(fixed, _FIXED_SPREAD if shares else 2 * _FIXED_SPREAD),
        forward=Figure(forward, spread),
        backward=Figure(backward, spread),
        whole=Figure(1.0, math.hypot(_MODEL_ERROR, apart, noise)),
    )


def _shares(profile: dict[str, Any]) -> tuple[float, float, float]:
    """Return the parts of a step: what does not shrink with the batch, forward, and backward.

    A step of a batch twice as large takes longer by the work of that half; the rest is the same in both. It is no less
    than what comes after backward: the optimizer.
    """
    forward = number(profile.get("forward_share"), 0.0, 1.0) or 0.0
    backward = number(profile.get("backward_share"), 0.0, 1.0 - forward) or 0.0
    if not forward or not backward:
        forward, backward = _FORWARD, _BACKWARD
    seconds, half = positive(profile.get("seconds")), positive(profile.get("half_seconds"))
    samples, fewer = (whole(profile.get(name), 1, _LARGEST) for name in ("samples", "half_samples"))
    after = 1 - forward - backward
    if seconds is None or half is None or not samples or not fewer or fewer >= samples:
        return max(after, _FIXED), forward, backward
    per_sample = (seconds - half) / (samples - fewer)
    return min(1.0, max(after, 1 - per_sample * samples / seconds)), forward, backward


def _step(run: RunSummary, profile: dict[str, Any], size: float, epochs: int) -> Step:
    """Check what a profile lists; without it buckets fill evenly."""
    listed = _rows(profile.get("buckets"))
    buckets = [Bucket(bytes_, min(1.0, ready), max(1, int(calls))) for bytes_, ready, calls in listed if bytes_]
    if not buckets or abs(sum(bucket.size for bucket in buckets) / size - 1) > 0.01:  # they are torn
        count = min(_MOST_LISTED, max(1, round(size / _BUCKET)))
        buckets = [Bucket(size / count, (place + 1) / count) for place in range(count)]
    # Bytes that are assumed are those of another model, with as many more matrices of the same shapes.
    more = size / (positive(profile.get("gradient_bytes")) or size)
    matrices = [Matrix(int(a), int(b), int(many) * more) for a, b, many in _rows(profile.get("matrices"))]
    by_itself = "ddp" in profile and profile["ddp"] is False and not run.axes.get("communication")
    return Step(
        samples=run.global_batch_size,
        buckets=tuple(buckets),
        gradient_bytes=size,
        element_bytes=whole(profile.get("element_bytes"), 1, 16) or 4,
        matrices=tuple(matrices),
        broadcast_bytes=number(profile.get("broadcast_bytes"), 0.0) or 0.0,
        in_backward=not by_itself,
        parts=whole(run.axes.get("accumulate", run.args.get("accumulate")), 1, _LARGEST) or 1,
        steps=run.steps / max(1, epochs),
    )


def _rows(value: object) -> list[list[float]]:
    """Check a list of rows of three numbers; those that are none are left out."""
    rows = value[:_MOST_LISTED] if isinstance(value, list) else []
    rows = [row for row in rows if isinstance(row, list) and len(row) == 3]
    return [row for row in rows if all(number(value, 0.0) is not None for value in row)]
