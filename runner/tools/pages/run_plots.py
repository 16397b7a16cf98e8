"""Plot single runs: loss and accuracy, bandwidth over message size, and load over time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from runner.report.claims import disturbed, learned_differs
from runner.report.columns import page_seconds
from runner.report.rows import Row
from runner.tools.pages import style
from runner.tools.pages.details import Details
from runner.tools.pages.style import MUTED, Plot
from runner.tools.pages.subject import Gap, Subject, listing, typical_run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_PANELS = 4
MOST_PUBLISHED = 3
FEWEST_LOOKS = 3
_WIDE_RANGE = 30
_SOON = 0.98
_BUSY = 85
_LOADS = {
    "cpu_percent": ("CPU load", "CPU of the node in %", 1.0),
    "gpu_percent": ("GPU load", "GPUs in use in %, mean", 1.0),
    "memory_bytes": ("Memory", "memory of the node in GB", 1e-9),
}
Drawn = list[tuple[Row, Details]]


def curves(subject: Subject) -> list[Plot | Gap]:
    """Draw loss and accuracy over epochs and over seconds of training, along with published values."""
    drawn = [(row, details) for row, details in subject.drawn() if details.curves]
    if not drawn:
        return [Gap("Loss and accuracy", "no complete run reports them by epoch")]
    if all(len(curve) == 1 for _, details in drawn for curve in details.curves.values()):
        return [Gap("Loss and accuracy", "the runs have one epoch, so there is no curve")]
    reported = {label for _, details in drawn for label in details.curves}
    kinds = {"loss": ("training loss", "test loss"), "accuracy": ("accuracy",)}
    return [
        _curve(subject, drawn, kind, labels, over)
        for kind, labels in kinds.items()
        if reported & {*labels}
        for over in ("epochs", "seconds")
    ]


def _curve(subject: Subject, drawn: Drawn, kind: str, labels: tuple[str, ...], over: str) -> Plot | Gap:
    from matplotlib.ticker import MaxNLocator

    title = f"{kind.capitalize()} over {over}"
    figure, axes = style.axes()
    percent = 100 if kind == "accuracy" else 1
    values: list[float] = []
    for number, (row, details) in enumerate(drawn):
        for label in labels:
            points = _points(details, label, over)
            look = style.series(number) | {"linestyle": (0, (2, 1.4)) if label == "test loss" else "-"}
            name = style.name(row.first.cell) + (f" {label.removesuffix(' loss')}" if kind == "loss" else "")
            y = [math.nan if value is None else value * percent for _, value in points]
            if points:
                x = [at for at, _ in points]
                axes.plot(x, y, label=name, markevery=max(1, len(x) // 10), **look)
            values += [value for value in y if not math.isnan(value)]
    if not values:
        return Gap(title, f"no reported {kind} is a number")
    beside = _published(axes, subject, kind, over)
    if kind == "loss" and min(values) > 0 and max(values) > _WIDE_RANGE * min(values):
        style.logarithmic(axes, "y", 10)
    axes.set_ylabel("accuracy in %" if kind == "accuracy" else "loss")
    axes.set_xlabel("epochs" if over == "epochs" else "seconds of training, without tests")
    if over == "epochs":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    style.finish(figure, axes)
    say = _after_epochs if over == "epochs" else _after_seconds
    label = labels[-1] if any(labels[-1] in details.curves for _, details in drawn) else "training loss"
    which = subject.which(len(drawn)) if title == "Loss over epochs" else ""
    caption = " ".join(filter(None, (say(drawn, kind, label), beside, which)))
    return Plot(subject.plot(f"{kind}-{over}"), title, caption, figure)


def _points(details: Details, label: str, over: str) -> list[tuple[float, float | None]]:
    points = [(epoch if over == "epochs" else at, value) for epoch, at, value in details.curves.get(label, [])]
    return [(at, value) for at, value in points if at is not None]


def _published(axes: Axes, subject: Subject, kind: str, over: str) -> str:
    drawn: list[str] = []
    for line in subject.published:
        if len(drawn) >= MOST_PUBLISHED:
            break
        label = style.name(f"published: {line['hardware']}")
        look: dict[str, Any] = {"color": MUTED, "linewidth": 1.1, "marker": ("x", "+", "1")[len(drawn)], "ms": 5}
        curve = line.get("val_loss") if kind == "loss" and over == "epochs" else None
        accuracy = (line.get("accuracy") or line.get("best_accuracy")) if kind == "accuracy" else None
        seconds = line.get("train_seconds") or line.get("total_seconds")
        if curve:
            axes.plot(range(1, len(curve) + 1), curve, label=f"{label}, test", markevery=3, **look)
        elif accuracy and over == "epochs":
            axes.axhline(100 * accuracy, color=MUTED, linewidth=1.1, linestyle=(0, (1, 1.5)), label=label)
        elif accuracy and seconds:
            axes.plot([seconds], [100 * accuracy], linestyle="none", label=label, **look)
        else:
            continue
        drawn.append(line["hardware"])
    return f"Published values: {listing(drawn)}." if drawn else ""


def _after_epochs(drawn: Drawn, kind: str, label: str) -> str:
    reported = [(row, curve) for row, details in drawn if (curve := details.curves.get(label))]
    last = ", ".join(f"{row.first.cell} {_value(curve[-1][2], kind)}" for row, curve in reported)
    epochs = {curve[-1][0] for _, curve in reported}
    number = max(epochs)
    when = f"After {number} epoch{'' if number == 1 else 's'}" if len(epochs) == 1 else "After the last epoch"
    what = "test accuracy" if kind == "accuracy" else f"the {label}"
    words = f"{when}, {what} is: {last}."
    compared = [(row, row.baseline) for row, _ in reported if row.baseline and not row.is_baseline]
    if compared and all(curve[-1][2] is not None for _, curve in reported):
        differ = next(filter(None, (learned_differs(row, base) for row, base in compared)), None)
        words += f" The cells learn differently: {differ}." if differ else " The cells learn equally well."
    broken = [row.first.cell for row, curve in reported if any(value is None for _, _, value in curve)]
    return words + (f" Gaps in the line of {listing(broken)} are values that are not numbers." if broken else "")


def _after_seconds(drawn: Drawn, kind: str, label: str) -> str:
    sign = 1 if kind == "accuracy" else -1
    timed = {
        row.first.cell: [(at, sign * value) for at, value in _points(details, label, "seconds") if value is not None]
        for row, details in drawn
    }
    best = [max(value for _, value in curve) for curve in timed.values() if curve]
    if not best:
        return "The times of the epochs are unknown."
    goal = min(best) - (1 - _SOON) * abs(min(best))
    reached = [(next((at for at, value in curve if value >= goal), None), cell) for cell, curve in timed.items()]
    words = ", ".join(f"{cell} after {page_seconds(at)} s" for at, cell in sorted(reached) if at is not None)
    what = f"{goal:.1%} accuracy" if kind == "accuracy" else f"a {label} of {-goal:.3g}"
    return f"Time to {what}: {words}. This shows one run of each cell; see the table for claims."


def _value(value: float | None, kind: str) -> str:
    if value is None:
        return "not a number"
    return f"{value:.2%}" if kind == "accuracy" else f"{value:#.3g}".rstrip(".")


def bandwidth(subject: Subject) -> list[Plot | Gap]:
    """Draw the bus bandwidth of each operation over the size of a message, one plot for each cell."""
    drawn = [(row, details) for row, details in subject.drawn(MOST_PANELS) if details.rates]
    return [_bandwidth(subject, number, row, details) for number, (row, details) in enumerate(drawn, 1)]


def _bandwidth(subject: Subject, number: int, row: Row, details: Details) -> Plot | Gap:
    title = f"Bus bandwidth, {row.first.cell}"
    messages = subject.reader.messages(typical_run(row))
    if not messages:
        return Gap(title, "the run's output per message size is missing, too large or unreadable")
    chosen = ([name for name in details.rates if name in messages] or list(messages))[: style.MOST_SERIES]
    figure, axes = style.axes()
    for place, name in enumerate(chosen):
        sizes, rates = zip(*messages[name], strict=True)
        axes.plot(sizes, [rate / 1e9 for rate in rates], label=style.name(name), **style.series(place))
    style.logarithmic(axes, "x", 2, _bytes)
    style.logarithmic(axes, "y", 10)
    axes.set_xlabel("size of a message")
    axes.set_ylabel("bus bandwidth in GB/s")
    style.finish(figure, axes)
    rate, size, best = max((rate, size, name) for name in chosen for size, rate in messages[name])
    smallest, small = messages[chosen[0]][0]
    share = small / max(rate for _, rate in messages[chosen[0]])
    caption = f"{best} is the fastest: {rate / 1e9:.3g} GB/s at {_bytes(size)}. "
    caption += f"{chosen[0]} reaches {share:.1%} of its peak at {_bytes(smallest)}."
    return Plot(subject.plot(f"bandwidth-{number}"), title, caption, figure)


def _bytes(size: float) -> str:
    for unit, factor in (("GB", 2**30), ("MB", 2**20), ("KB", 2**10)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size:.3g} B"


def load(subject: Subject) -> list[Plot | Gap]:
    """Draw the load of the nodes over the time of the runs."""
    drawn = [(row, details) for row, details in subject.drawn() if details.load]
    if not drawn:
        return [Gap("Load over time", "no complete run reports its load")] if subject.measured else []
    if all(len(points) < FEWEST_LOOKS for _, details in drawn for points in details.load.values()):
        return [Gap("Load over time", "the runs took only a few seconds, and load is sampled once a second")]
    return [_load(subject, drawn, figure) for figure in _LOADS if any(figure in details.load for _, details in drawn)]


def _load(subject: Subject, drawn: Drawn, name: str) -> Plot:
    title, label, factor = _LOADS[name]
    figure, axes = style.axes(2.9)
    peaks = []
    for number, (row, details) in enumerate(drawn):
        if points := details.load.get(name):
            values = [value * factor for _, value in points]
            peaks.append((max(values), row.first.cell))
            look = {"markevery": max(1, len(points) // 10), **style.series(number)}
            axes.plot([at for at, _ in points], values, label=style.name(row.first.cell), **look)
    most, cell = max(peaks)
    axes.set_ylim(0, 105 if name.endswith("_percent") else 1.15 * most or 1.0)
    axes.set_xlabel("seconds since the first event of the run")
    axes.set_ylabel(label)
    style.finish(figure, axes)
    caption = f"At most {most:.1f} GB are in use, with {cell}, including other processes on the node."
    if name != "memory_bytes":
        caption = _how_busy([(row, row.load[name]) for row, _ in drawn if name in row.load])
    return Plot(subject.plot(name.replace("_", "-")), f"{title} over time", caption, figure)


def _how_busy(means: list[tuple[Row, float]]) -> str:
    full = {row.first.cell: disturbed(row.complete) for row, mean in means if mean >= _BUSY}
    alone = [cell for cell, disturbance in full.items() if not disturbance]
    others = "; ".join(f"{cell} was {disturbance}" for cell, disturbance in full.items() if disturbance)
    words = f"Mean while training: {', '.join(f'{row.first.cell} {mean:.0f}%' for row, mean in means)}."
    words += f" With {listing(alone)}, nothing is idle, so more processes would compete." if alone else ""
    return words + (f" Part of the load may be other processes: {others}." if others else "") if means else ""
