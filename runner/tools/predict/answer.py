"""A start, layouts and communications -> an answer: rows beside what was measured, advice, and what is not known."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from runner.core.layout import Layout
from runner.report.run_summary import RunSummary
from runner.report.statistics import Estimate, welch
from runner.tools.predict.base import Base
from runner.tools.predict.communication import PLAIN, Communication
from runner.tools.predict.forecast import NEAR_BEST, Expected, best_of, cheapest_of, expect
from runner.tools.predict.links import Assumed
from runner.tools.predict.place import setting_of
from runner.tools.predict.starts import Start, communication_of


@dataclass(frozen=True)
class Line:
    """A prediction, and what was measured: the speed-up, how many runs it is from, and if any was disturbed.

    `moved` are the bytes that a step moves between all ranks, as predicted and as the runs counted them.
    """

    expected: Expected
    measured: Estimate | None = None
    runs: int = 0
    disturbed: bool = False
    moved: tuple[float, float | None] = (0.0, None)

    @property
    def covered(self) -> bool | None:
        """Whether the interval holds what was measured; None if there is nothing to compare."""
        told = self.expected.speedup
        if self.measured is None or told is None or told.low is None or told.high is None:
            return None
        return told.low <= self.measured.value <= told.high


@dataclass(frozen=True)
class Answer:
    """What to expect of a cell: a line for each layout and communication.

    `network_runs` counts those that were used at each layout, `lacks` says what is not known and what it is taken to
    be, `unmeasured` are the layouts of which the network was not measured.
    """

    start: Start
    base: Base
    assumed: Assumed
    lines: tuple[Line, ...]
    network_runs: dict[str, int]
    lacks: tuple[str, ...]
    unmeasured: tuple[str, ...]

    @property
    def best(self) -> Expected | None:
        """The row with the highest speed-up; None if nothing can be known."""
        return best_of([line.expected for line in self.lines])

    @property
    def cheapest(self) -> Expected | None:
        """The row that is worth its price."""
        return cheapest_of([line.expected for line in self.lines])


def answer(
    start: Start, base: Base, layouts: Iterable[Layout], communications: Sequence[Communication], assumed: Assumed
) -> Answer:
    """Predict all layouts, each with all communications; one process has none."""
    lines: list[Line] = []
    lacks: dict[str, None] = dict.fromkeys(base.lacks)
    unmeasured: dict[str, None] = {}
    network_runs: dict[str, int] = {}
    for layout in sorted(set(layouts), key=lambda layout: (layout.world_size, layout.nodes, str(layout))):
        setting = setting_of(layout, base, start.measured, assumed)
        if layout.world_size > 1:
            network_runs |= {setting.runs[0].layout: len(setting.runs)} if setting.runs else {}
            if setting.missing and not (assumed.has_link and layout.nodes > 1 and setting.runs):
                unmeasured[str(layout)] = None
            lacks |= dict.fromkeys(setting.lacks)
        for communication in communications if layout.world_size > 1 else [Communication()]:
            expected = expect(base, setting, layout, communication)
            if expected.speedup is None:
                lacks |= dict.fromkeys(f"{layout} {communication}: {why}" for why in expected.lacks)
            # A link that is assumed is not the one of the runs.
            compared = not (assumed.has_link and layout.nodes > 1)
            steps = base.step.steps / (1 if setting.place.strong else layout.world_size)
            moved = communication.moved_bytes(base.step, layout.world_size, steps)
            lines.append(_beside(expected, start, moved) if compared else Line(expected, moved=(moved, None)))
    return Answer(start, base, assumed, tuple(lines), network_runs, tuple(lacks), tuple(unmeasured))


def measured_cells(start: Start) -> list[tuple[Layout, Communication]]:
    """Return the cells of several processes that were measured."""
    cells = {(run.layout, str(communication_of(run))): communication_of(run) for run in start.others}
    return [(Layout.parse(layout), communication) for (layout, _), communication in sorted(cells.items())]


def _beside(expected: Expected, start: Start, moved: float) -> Line:
    """Put what was measured beside what is expected: seconds per trained sample, as the table of all runs does."""
    name = str(expected.communication or PLAIN)

    def of(runs: Iterable[RunSummary], choice: str = name) -> list[RunSummary]:
        return [run for run in runs if run.seconds and run.trained_samples and str(communication_of(run)) == choice]

    own = of(run for run in start.others if run.layout == str(expected.layout))
    alone = of(start.alone) or of(start.alone, PLAIN)
    if not own or not alone:
        return Line(expected, moved=(moved, None))
    first, more = ([run.seconds / run.trained_samples for run in side if run.seconds] for side in (alone, own))
    disturbed = any(run.disturbed for run in (*alone, *own))
    return Line(expected, welch(first, more).estimate(), len(own), disturbed, (moved, own[-1].bytes_moved))


def to_plain(prediction: Answer) -> dict[str, Any]:
    """Return an answer as plain values; the names of the fields are a promise to other people's scripts."""
    return {
        "cell": prediction.start.name,
        "one_process": {
            "runs": [run.path for run in prediction.base.runs],
            "step_seconds": prediction.base.inputs.seconds.value,
            "samples": prediction.base.step.samples,
            "gradient_bytes": prediction.base.step.gradient_bytes,
            "forward_share": prediction.base.inputs.forward.value,
            "backward_share": prediction.base.inputs.backward.value,
            "fixed_share": prediction.base.inputs.fixed.value,
        },
        "assumed": {name: value for name, value in prediction.assumed._asdict().items() if value is not None},
        "network_runs": prediction.network_runs,
        "rows": [_row(line) for line in prediction.lines],
        "best": _named(prediction.best),
        "cheapest_near_best": _named(prediction.cheapest),
        "near_best": NEAR_BEST,
        "not_known": list(prediction.lacks),
        "unmeasured_layouts": list(prediction.unmeasured),
    }


def _named(row: Expected | None) -> dict[str, Any] | None:
    if row is None:
        return None
    return {"layout": str(row.layout), "communication": str(row.communication) if row.communication else None}


def _row(line: Line) -> dict[str, Any]:
    expected, speedup, measured = line.expected, line.expected.speedup, line.measured
    limited_by, share = expected.limit
    return {
        **(_named(expected) or {}),
        "nodes": expected.layout.nodes,
        "processes": expected.layout.world_size,
        "speedup": speedup.value if speedup else None,
        "speedup_low": speedup.low if speedup else None,
        "speedup_high": speedup.high if speedup else None,
        "step_seconds": expected.parts.seconds if expected.parts else None,
        "losses": expected.parts.losses if expected.parts else None,
        "limited_by": limited_by or None,
        "limited_share": share if limited_by else None,
        "measured_speedup": measured.value if measured else None,
        "measured_low": measured.low if measured else None,
        "measured_high": measured.high if measured else None,
        "measured_runs": line.runs,
        "measured_disturbed": line.disturbed,
        "moved_bytes": line.moved[0],
        "measured_moved_bytes": line.moved[1],
    }
