"""Plot of a check: how far the gradients of several processes are from those of one that has their batches."""

from runner.records.checked import Check
from runner.tools.pages import style
from runner.tools.pages.style import MUTED, Plot
from runner.tools.pages.subject import Subject

_LEAST = 1e-10
"""Where equal bit by bit is drawn."""


def equality(subject: Subject) -> Plot | None:
    """Draw the distances by step, beside what another order of the ranks gives; None without a check that has them."""
    checks: dict[str, Check] = subject.block.definition.get("checked", {})
    counts = {row.first.processes for row in subject.block.rows}
    known = [(number, check) for number, check in sorted(checks.items()) if int(number) in counts and check.off]
    if not known:
        return None
    figure, axes = style.axes()
    said = []
    for place, (number, check) in enumerate(known[: style.MOST_SERIES]):
        off = [max(value, _LEAST) for value in check.off]
        axes.plot(range(1, len(off) + 1), off, label=f"{number} processes", **style.series(place))
        said.append(f"{number} processes: {check.off[0]:.1e}")
        if check.order:
            said[-1] += f", and {check.order:.1e} by another order of them"
            axes.axhline(check.order, color=MUTED, linewidth=1.1, linestyle=(0, (1, 1.5)))
    style.logarithmic(axes, "y", 10)
    axes.set_xlabel("step")
    axes.set_ylabel("difference of the gradients, relative")
    axes.set_xticks(range(1, max(len(check.off) for _, check in known) + 1))
    style.finish(figure, axes)
    caption = f"The first gradient differs from that of one process with all batches by: {'; '.join(said)}."
    return Plot(subject.plot("equality"), "Do several processes train what one trains?", caption, figure)
