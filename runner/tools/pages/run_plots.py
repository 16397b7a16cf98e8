"""Plots of single runs: loss and accuracy as they train, bandwidth over the size of a message, load over time."""

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
    """Draw loss and accuracy over epochs and over seconds of training, with the published ones beside."""
    drawn = [(row, details) for row, details in subject.drawn() if details.curves]
    if not drawn:
        return [Gap("Loss and accuracy", "no complete run reports them by epoch")]
    if all(len(curve) == 1 for _, details in drawn for curve in details.curves.values()):
        return [Gap("Loss and accuracy", "the runs have one epoch, so there is no curve")]
    found: list[Plot | Gap] = []
    for kind, labels in (("loss", ("training loss", "test loss")), ("accuracy", ("accuracy",))):
        if any(label in details.curves for _, details in drawn for label in labels):
            found += [_curve(subject, drawn, kind, labels, over) for over in ("epochs", "seconds")]
    return found


def _curve(subject: Subject, drawn: Drawn, kind: str, labels: tuple[str, ...], over: str) -> Plot | Gap:
    from matplotlib.ticker import MaxNLocator  # an extra

    figure, axes = style.axes()
    values: list[float] = []
    for number, (row, details) in enumerate(drawn):
        for label in labels:
            points = [(epoch if over == "epochs" else at, value) for epoch, at, value in details.curves.get(label, [])]
            x = [at for at, _ in points if at is not None]
            if not x:
                continue
            look = style.series(number) | {"linestyle": (0, (2, 1.4)) if label == "test loss" else "-"}
            what = f" {label.removesuffix(' loss')}" if len(labels) > 1 else ""
            percent = 100 if kind == "accuracy" else 1
            # What is missing is a gap.
            y = [math.nan if value is None else value * percent for at, value in points if at is not None]
            axes.plot(x, y, label=style.name(row.first.cell) + what, markevery=max(1, len(x) // 10), **look)
            values += [value for value in y if not math.isnan(value)]
    title = f"{kind.capitalize()} over {over}"
    if not values:
        return Gap(title, f"each {kind} that was reported is no number")
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
    caption = f"{say(drawn, kind, label)} {beside}".strip()
    if over == "epochs" and kind == "loss":
        caption = f"{caption} {subject.which(len(drawn))}".strip()
    return Plot(subject.plot(f"{kind}-{over}"), title, caption, figure)


def _published(axes: Axes, subject: Subject, kind: str, over: str) -> str:
    """Draw the published curves and figures that have these axes; return what to say of them."""
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
    return f"Beside it, as published: {listing(drawn)}." if drawn else ""


def _after_epochs(drawn: Drawn, kind: str, label: str) -> str:
    """Return what the last epoch came to, and whether the cells agree."""
    ends = [(row, curve[-1]) for row, details in drawn if (curve := details.curves.get(label))]
    last = [f"{row.first.cell} {_value(value, kind)}" for row, (_, _, value) in ends]
    epochs = {epoch for _, (epoch, _, _) in ends}
    last_epoch = max(epochs)
    when = f"After {last_epoch} epoch{'' if last_epoch == 1 else 's'}" if len(epochs) == 1 else "At its last epoch"
    broken = [
        row.first.cell for row, details in drawn if any(value is None for _, _, value in details.curves.get(label, []))
    ]
    gap = f" Where the line of {listing(broken)} breaks, the value is no number." if broken else ""
    compared = [row for row, _ in ends if row.baseline and row.baseline.first is not row.first]
    differ = next(filter(None, (learned_differs(row, row.baseline) for row in compared if row.baseline)), None)
    same = f" The cells do not learn the same: {differ}." if differ else " The cells learn the same."
    if not compared or any(value is None for _, (_, _, value) in ends):
        same = ""
    what = "test accuracy" if kind == "accuracy" else f"the {label}"
    return f"{when}, {what} is: {', '.join(last)}.{same}{gap}"


def _after_seconds(drawn: Drawn, kind: str, label: str) -> str:
    """Return when each cell came to a value that all of them reach."""
    known = [
        (row, [(at, value) for _, at, value in details.curves.get(label, []) if at is not None and value is not None])
        for row, details in drawn
    ]
    known = [(row, curve) for row, curve in known if curve]
    if not known:
        return "No seconds are known."
    better = max if kind == "accuracy" else min
    worse = min if kind == "accuracy" else max
    goal = worse(better(value for _, value in curve) for _, curve in known)
    goal = goal * _SOON if kind == "accuracy" else goal + (1 - _SOON) * abs(goal)
    reached = []
    for row, curve in known:
        at = next((at for at, value in curve if (value >= goal if kind == "accuracy" else value <= goal)), None)
        reached += [(at, row.first.cell)] if at is not None else []
    words = ", ".join(f"{cell} after {page_seconds(at)} s" for at, cell in sorted(reached))
    what = f"{goal:.1%} accuracy" if kind == "accuracy" else f"a {label} of {goal:.3g}"
    return f"Time to {what}: {words}. That is one run of each; the table says what may be claimed."


def _value(value: float | None, kind: str) -> str:
    if value is None:
        return "no number"
    return f"{value:.2%}" if kind == "accuracy" else f"{value:#.3g}".rstrip(".")


def bandwidth(subject: Subject) -> list[Plot | Gap]:
    """Draw the bus bandwidth of each operation over the size of a message, one plot for each cell."""
    drawn = [(row, details) for row, details in subject.drawn(MOST_PANELS) if details.rates]
    found: list[Plot | Gap] = []
    for number, (row, details) in enumerate(drawn):
        title = f"Bus bandwidth, {row.first.cell}"
        messages = subject.reader.messages(typical_run(row))
        if not messages:
            found.append(Gap(title, "what the run printed of single sizes is not there, too large, or cannot be read"))
            continue
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
        found.append(Plot(subject.plot(f"bandwidth-{number + 1}"), title, _fastest(messages, chosen), figure))
    return found


def _fastest(messages: dict[str, list[tuple[float, float]]], chosen: list[str]) -> str:
    peaks = {name: max(messages[name], key=lambda message: message[1]) for name in chosen}
    best = max(chosen, key=lambda name: peaks[name][1])
    first = chosen[0]
    size, rate = peaks[best]
    words = f"{best} is the fastest: {rate / 1e9:.3g} GB/s at {_bytes(size)}."
    small = messages[first][0]
    share = small[1] / peaks[first][1]
    words += f" {first} reaches {share:.1%} of its peak at {_bytes(small[0])}: small messages cost latency."
    others = len(messages) - len(chosen)
    return f"{words} {others} more operations are in the run's output." if others else words


def _bytes(size: float) -> str:
    for unit, factor in (("GB", 2**30), ("MB", 2**20), ("KB", 2**10)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size:.3g} B"


def load(subject: Subject) -> list[Plot | Gap]:
    """Draw how busy the nodes were while the runs lasted."""
    drawn = [(row, details) for row, details in subject.drawn() if details.load]
    if not drawn:
        return [Gap("Load over time", "no complete run reports its load")] if subject.measured else []
    if all(len(points) < FEWEST_LOOKS for _, details in drawn for points in details.load.values()):
        return [Gap("Load over time", "the runs took a few seconds, and the load is looked at once a second")]
    return [_load(subject, drawn, figure) for figure in _LOADS if any(figure in details.load for _, details in drawn)]


def _load(subject: Subject, drawn: Drawn, name: str) -> Plot:
    title, label, factor = _LOADS[name]
    figure, axes = style.axes(2.9)
    highest = []
    for number, (row, details) in enumerate(drawn):
        if points := details.load.get(name):
            values = [(value or 0.0) * factor for _, value in points]
            highest.append((max(values), row.first.cell))
            look = {"markevery": max(1, len(points) // 10), **style.series(number)}
            axes.plot([at for at, _ in points], values, label=style.name(row.first.cell), **look)
    axes.set_ylim(0, 105 if name.endswith("_percent") else 1.15 * max(highest)[0] or 1.0)
    axes.set_xlabel("seconds since the first event of the run")
    axes.set_ylabel(label)
    style.finish(figure, axes)
    return Plot(subject.plot(name.replace("_", "-")), f"{title} over time", _how_busy(drawn, name, highest), figure)


def _how_busy(drawn: Drawn, name: str, highest: list[tuple[float, str]]) -> str:
    most, cell = max(highest)
    if name == "memory_bytes":
        return f"At most {most:.1f} GB are in use, with {cell}; what else ran on the node is in it."
    means = [(row, row.load[name]) for row, _ in drawn if name in row.load]
    said = ", ".join(f"{row.first.cell} {mean:.0f}%" for row, mean in means)
    end = _what_fills_it([row for row, mean in means if mean >= _BUSY])
    return f"Mean while training: {said}.{end}" if said else f"At most {most:.0f}%, with {cell}."


def _what_fills_it(full: list[Row]) -> str:
    """Return of cells with a high load that nothing is free, or what else may have taken it."""
    disturbances = {row.first.cell: disturbed(row.complete) for row in full}
    own = [cell for cell, disturbance in disturbances.items() if not disturbance]
    end = f" With {listing(own)} nothing of it is free: more processes would share what there is." if own else ""
    others = [f"{cell} was {disturbance}" for cell, disturbance in disturbances.items() if disturbance]
    return f"{end} Not all of it need be the runs' own: {'; '.join(others)}." if others else end
