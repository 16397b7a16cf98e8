"""An answer -> the lines that a person reads."""

from collections.abc import Sequence
from shlex import quote

from runner.report.cells import estimate
from runner.report.statistics import DEFAULT
from runner.tools.predict.answer import Answer, Line
from runner.tools.predict.forecast import LIMITS, NEAR_BEST, Expected

HEAD = ("layout", "communication", f"speed-up [{DEFAULT}]", "limited by", "measured")
MOVED_OTHERWISE = 0.1
"""Part of the bytes by which a prediction may be off without a word; buffers and odd tensors are not all counted."""
_HERE = "local"
"""The target of `runner run` if none is named."""
_AND, _GIVEN = "+", ","
"""Between the cores of unlike nodes: in the axis of a run, and on the command line."""
_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"))


def head_lines(answer: Answer) -> list[str]:
    """Return what a prediction is from."""
    base, step = answer.base, answer.base.step
    runs = f"{len(base.runs)} run{'s' if len(base.runs) > 1 else ''} with one process"
    a_step = f"{duration(base.inputs.seconds.value)} a step of {step.samples:,} samples"
    about = f"{a_step}, gradients of {size(step.gradient_bytes)}; on {base.first.hardware}"
    lines = [f"{answer.start.name}, from {runs}: {about}"]
    used = [f"{count} at {layout}" for layout, count in sorted(answer.network_runs.items())]
    place = [f"{axis} {value}" for axis, value in answer.start.place.items()]
    elsewhere = [f"target {answer.start.network_target}"] if answer.start.network_target != base.first.target else []
    lines += [f"network: measured in {', '.join([*used, *place, *elsewhere])}"] if used else []
    words = []
    words += [f"{answer.assumed.bandwidth * 8 / 1e9:g} Gbit/s"] if answer.assumed.bandwidth is not None else []
    words += [f"latency {duration(answer.assumed.latency)}"] if answer.assumed.latency is not None else []
    return [*lines, f"assumed between nodes: {', '.join(words)}"] if words else lines


def table(answer: Answer) -> list[tuple[str, ...]]:
    """Return the rows with their head; what nobody has measured has no column."""
    rows = [HEAD, *(_cells(line) for line in answer.lines)]
    return rows if any(line.measured for line in answer.lines) else [row[:-1] for row in rows]


def advice(answer: Answer) -> list[str]:
    """Return which row is best, and which is worth its price."""
    if answer.best is None or answer.cheapest is None:
        return []
    best = f"best: {_name(answer.best)}, speed-up {estimate(answer.best.speedup)}"
    if answer.best is answer.cheapest:
        return [f"{best}; nothing cheaper comes within {1 - NEAR_BEST:.0%} of it"]
    cheapest = f"{_name(answer.cheapest)}, speed-up {estimate(answer.cheapest.speedup)}"
    return [best, f"cheapest within {1 - NEAR_BEST:.0%} of it: {cheapest}"]


def notes(answer: Answer, network: str) -> list[str]:
    """Return what is not known, and which command measures it: a run of the experiment `network`."""
    found = [f"not known: {what}" for what in answer.lacks]
    if answer.unmeasured:
        words = [network, *(f"--layout {layout}" for layout in answer.unmeasured)]
        words += [f"--on {answer.base.first.target}"] if answer.base.first.target != _HERE else []
        words += [
            f"--with {quote(f'{axis}={value.replace(_AND, _GIVEN)}')}" for axis, value in answer.start.place.items()
        ]
        found.append(f"the network was not measured at {', '.join(answer.unmeasured)}: runner run {' '.join(words)}")
    return [*found, *missed(answer.lines), *otherwise(answer.lines)]


def otherwise(lines: Sequence[Line]) -> list[str]:
    """Name the rows whose runs moved other bytes than were predicted."""
    found = []
    for line in lines:
        predicted, counted = line.moved
        if counted is not None and abs(counted - predicted) > MOVED_OTHERWISE * max(counted, predicted):
            found.append(f"{_name(line.expected)} moved {size(counted)} a step, {size(predicted)} were predicted")
    return found


def missed(lines: Sequence[Line]) -> list[str]:
    """Name the rows whose interval does not hold what was measured."""
    found = []
    for disturbed, why in ((False, ""), (True, "; other work disturbed these runs")):
        names = [_name(line.expected) for line in lines if line.covered is False and line.disturbed is disturbed]
        found += [f"the predicted interval does not hold what was measured: {', '.join(names)}{why}"] if names else []
    return found


def limit(row: Expected) -> str:
    """Return what limits a row, and how much of the step it costs."""
    name, share = row.limit
    if not name:
        return row.lacks[0] if row.lacks else ""
    return name if name == "compute" else f"{LIMITS[name]}, {share:.0%}"


def duration(seconds: float) -> str:
    """Write seconds with the unit that fits."""
    for unit, word in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {word}"
    return f"{seconds / 1e-6:.3g} us"


def size(value: float) -> str:
    """Write bytes with the unit that fits."""
    for unit, word in _UNITS:
        if value >= unit:
            return f"{value / unit:.3g} {word}"
    return f"{value:.0f} bytes"


def _cells(line: Line) -> tuple[str, ...]:
    row = line.expected
    told = estimate(row.speedup) if row.speedup else "not known"
    measured = f"{estimate(line.measured)} (n = {line.runs})" if line.measured else ""
    return (str(row.layout), str(row.communication or ""), told, limit(row), measured)


def _name(row: Expected) -> str:
    return " ".join(filter(None, (str(row.layout), str(row.communication or ""))))
