"""One page for a proposal for computing time: how far an experiment scales on a machine, and what a run costs.

The baseline is the smallest cell that completed, because a model may not fit into less: speed-ups are over it, and the
ideal one is the ratio of processes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from runner.core.errors import RequestError, did_you_mean
from runner.core.layout import Layout
from runner.core.text import one_line
from runner.report.page.document import environment_of_templates, plot_prefix
from runner.report.page.scaling_plots import draw_speed_up, line_of, point_of
from runner.report.page.style import Plot, drawing
from runner.report.page.subject import Subject, listing, show_interval, show_ratio, show_seconds
from runner.report.page.tex import tex
from runner.report.statistics import Estimate, ratio

if TYPE_CHECKING:
    from jinja2 import Environment

    from runner.report.page.details import DetailReader
    from runner.report.page.select import Selection
    from runner.report.rows import Block, Row

MOST_STEPS = 12
"""Cells on the page: more do not fit beside the plot."""
ENOUGH = 0.7
"""The efficiency that computing centres commonly ask for."""
_HOUR = 3600.0
_LONGEST_FACT, _LONGEST_WHY, _LONGEST_NAME = 200, 60, 16
_SCALING = {
    "strong": "Strong scaling: the work is the same in every row, so the ideal speed-up is the ratio of processes.",
    "weak": "Weak scaling: the batch of a process is the same in every row, so the global batch grows with them; the"
    " speed-up is that of samples per second, and the ideal one is the ratio of processes.",
}


@dataclass(frozen=True)
class Step:
    """One cell against the smallest feasible one; `node_hours` are those of one run, start and end included."""

    row: Row
    base: Row
    speedup: Estimate
    node_hours: float | None

    @property
    def nodes(self) -> int:
        """How many nodes the cell takes."""
        return Layout.parse(self.row.first.layout).nodes

    @property
    def efficiency(self) -> Estimate:
        """Speed-up over the ratio of processes."""
        return self.speedup.over(self.row.first.processes / self.base.first.processes)


class Evidence(NamedTuple):
    """The texts of the page; the template of HTML and that of LaTeX have the same ones."""

    title: str
    question: str
    scaling: str
    facts: list[tuple[str, str]]
    baseline: str
    head: list[str]
    lines: list[list[str]]
    findings: list[str]
    caption: str
    left_out: str


def make_evidence(selection: Selection, reader: DetailReader) -> tuple[Evidence, Plot]:
    """Sum up the newest block of the one experiment that was chosen; RequestError if there is nothing to sum up."""
    block, others = _choose(selection)
    steps = _steps(block, reader)
    if not steps:
        msg = f"{one_line(block.first.experiment)}: no run is complete, so there is no evidence to show"
        raise RequestError(msg)
    shown = steps[:MOST_STEPS]
    bases = {step.base.first.processes for step in shown}
    with drawing():
        points = [point_of(step.row, step.speedup) for step in shown]
        figure = draw_speed_up(points, min(bases), [])
    caption = f"Speed-up over {_processes(min(bases))}, with 95% intervals, beside the ideal line."
    name = f"{plot_prefix(0, block.first.experiment)}-evidence"
    evidence = Evidence(
        title=f"Scaling of {block.first.experiment}",
        question=str(block.definition.get("summary", "")),
        scaling=_SCALING.get(block.first.scaling, f"Scaling: {block.first.scaling}."),
        facts=_facts(Subject(block, reader, name)),
        baseline=_baseline(shown, block),
        head=_head(block),
        lines=[_line(step, block.axes) for step in shown],
        findings=_findings(block, shown, reader),
        caption=caption,
        left_out=_left_out(len(steps) - len(shown), others),
    )
    return evidence, Plot(name, "Speed-up", caption, figure)


def as_html(evidence: Evidence, svg: str) -> str:
    """Lay the page out."""
    from markupsafe import Markup  # noqa: PLC0415 - Jinja2's

    template = environment_of_templates().get_template("evidence.html.j2")
    return template.render(evidence=evidence, svg=Markup(svg))  # noqa: S704 - matplotlib escapes


def as_tex(evidence: Evidence, picture: str) -> str:
    """Write the page as a LaTeX document that shows a picture beside it."""
    from markupsafe import Markup  # noqa: PLC0415

    own = Markup(picture)  # noqa: S704 - a name of letters, digits and hyphens
    return _environment_of_tex().get_template("evidence.tex.j2").render(evidence=evidence, picture=own)


def _environment_of_tex() -> Environment:
    """Return the templates with other brackets than LaTeX's own; every value is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - an extra
    from markupsafe import Markup  # noqa: PLC0415

    def finalize(value: object) -> str:
        return str(value) if isinstance(value, Markup) else tex(value)

    return Environment(  # noqa: S701 - it is LaTeX, and `finalize` escapes
        loader=PackageLoader("runner.report.page"),
        undefined=StrictUndefined,
        finalize=finalize,
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
        comment_start_string="<#",
        comment_end_string="#>",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _choose(selection: Selection) -> tuple[Block, list[Block]]:
    """Return the newest block, and the others of its experiment; a page is about one experiment."""
    experiments = sorted({block.first.experiment for block in selection.blocks})
    if not experiments:
        msg = "no runs, so there is no evidence to show; make a first one with: runner run quickstart"
        raise RequestError(msg)
    if len(experiments) > 1:
        named = did_you_mean("", experiments).removeprefix("; ")
        msg = f"--evidence is a page about one experiment: choose it with --experiment; {one_line(named)}"
        raise RequestError(msg)
    newest = max(selection.blocks, key=lambda block: max(run.started for row in block.rows for run in row.runs))
    return newest, [block for block in selection.blocks if block is not newest]


def _steps(block: Block, reader: DetailReader) -> list[Step]:
    """Compare each complete cell with the smallest complete one of the same axes; lines with most cells first."""
    lines: dict[str, list[Row]] = defaultdict(list)
    for row in block.rows:
        if row.complete:
            lines[line_of(row)].append(row)
    steps = []
    for rows in sorted(lines.values(), key=len, reverse=True):
        base = min(rows, key=lambda row: (row.first.processes, Layout.parse(row.first.layout).nodes))
        unit = _seconds_per_work(base)
        for row in rows:
            own = _seconds_per_work(row)
            speedup = Estimate(1.0) if row is base else ratio(unit[1], own[1]) if unit[0] == own[0] else None
            if speedup is not None:
                steps.append(Step(row, base, speedup, _node_hours(row, reader)))
    return steps


def _seconds_per_work(row: Row) -> tuple[bool, list[float]]:
    """Return the seconds of each run over its work, and whether the work is counted in samples.

    Where it is not, a process is taken to do as much in every layout under weak scaling, and all of them together under
    strong scaling.
    """
    counted = all(run.trained_samples for run in row.complete)
    weak = row.first.scaling == "weak"
    return counted, [
        run.seconds / (run.trained_samples if counted else run.processes if weak else 1)
        for run in row.complete
        if run.seconds
    ]


def _node_hours(row: Row, reader: DetailReader) -> float | None:
    """Return nodes times hours of one run, from before its processes start until they have ended."""
    read = [details.seconds for run in row.complete[:MOST_STEPS] if (details := reader(run))]
    walls = [seconds.get("wall", seconds.get("total")) for seconds in read]
    known = [wall for wall in walls if wall is not None]
    return Layout.parse(row.first.layout).nodes * fmean(known) / _HOUR if known else None


def _facts(subject: Subject) -> list[tuple[str, str]]:
    run = subject.block.first
    details = next((one for row in subject.measured for each in row.complete if (one := subject.reader(each))), None)
    origin = details.provenance if details else {}
    software = ", ".join(f"{name} {origin[name]}" for name in ("torch", "CUDA", "NCCL", "Python") if origin.get(name))
    args = " ".join(f"{key}={value}" for key, value in run.args.items() if key not in ("scaling", "device"))
    found = [
        ("machine", run.hardware),
        ("software", software),
        ("program", f"{run.program} {args}".strip()),
        ("code", origin.get("commit") or origin.get("sources", "")),
        ("image", origin.get("image", "")),
    ]
    return [(name, one_line(value, _LONGEST_FACT)) for name, value in found if value]


def _baseline(steps: list[Step], block: Block) -> str:
    base = steps[0].base
    seconds = f"{show_seconds(base.seconds.value)}" if base.seconds else ""
    smaller = [row.first.cell for row in block.rows if row.first.processes < base.first.processes and not row.complete]
    failed = f"; {listing(smaller)} did not complete" if smaller else ""
    one = "" if base.first.processes == 1 or failed else "; smaller ones were not run"
    return f"Smallest feasible baseline: {base.first.cell}, {_processes(base.first.processes)}, {seconds}{failed}{one}."


def _processes(number: int) -> str:
    return "one process" if number == 1 else f"{number} processes"


def _head(block: Block) -> list[str]:
    timed = f"{block.first.measure.replace('_', ' ')} [95%]"
    head = ["nodes", "processes", *block.axes, "n", timed, "speed-up [95%]", "efficiency"]
    return [*head, "node-hours a run", "claimed"]


def _line(step: Step, axes: list[str]) -> list[str]:
    row, seconds = step.row, step.row.seconds
    times = ""
    if seconds:
        ends = [show_seconds(end).removesuffix(" s") for end in (seconds.low, seconds.high) if end is not None]
        times = show_seconds(seconds.value).removesuffix(" s") + (f" [{', '.join(ends)}]" if len(ends) > 1 else "")
    base = row is step.base
    return [
        str(step.nodes),
        str(row.first.processes),
        *(one_line(row.first.axes.get(axis, ""), _LONGEST_NAME) for axis in axes),
        str(len(row.complete)),
        times,
        show_interval(step.speedup) if step.speedup.low else show_ratio(step.speedup.value),
        f"{step.efficiency.value:.0%}",
        "" if step.node_hours is None else f"{step.node_hours:.3g}",
        "the baseline" if base else "yes" if row.claimed is True else one_line(row.claimed, _LONGEST_WHY),
    ]


def _findings(block: Block, steps: list[Step], reader: DetailReader) -> list[str]:
    """Say what the table comes to: how far it scales, what may be claimed, and what was spent."""
    found = _how_far([step for step in steps if step.row is not step.base])
    others = [step for step in steps if step.row is not step.base]
    claimed = [step.row.first.cell for step in others if step.row.claimed is True]
    if claimed:
        found.append(
            f"Claimed, with three runs or more on both sides and everything else the same: {listing(claimed)}."
        )
    elif others:
        found.append("None of the speed-ups may be claimed; the last column says why.")
    spent = [_node_hours(row, reader) for row in block.rows for _ in row.complete]
    known = [hours for hours in spent if hours is not None]
    if known:
        found.append(f"These {len(known)} runs took {sum(known):.3g} node-hours.")
    return found


def _how_far(others: list[Step]) -> list[str]:
    """Say up to which cell the efficiency is enough, by the low end of its interval; without one nothing is shown."""
    enough = [step for step in others if (step.efficiency.low or 0.0) >= ENOUGH]
    if enough:
        widest = max(enough, key=lambda step: step.row.first.processes)
        efficiency, faster = widest.efficiency, show_ratio(widest.speedup.value)
        reached = f"{efficiency.value:.0%}, 95% interval from {efficiency.low:.0%}; {faster} times as fast"
        return [f"The efficiency is {ENOUGH:.0%} or more up to {widest.row.first.cell} ({reached} as the baseline)."]
    perhaps = max(others, key=lambda step: step.efficiency.value, default=None)
    if perhaps is None:
        return []
    efficiency, cell = perhaps.efficiency, perhaps.row.first.cell
    if efficiency.value < ENOUGH:
        return [f"No larger layout than the baseline reaches an efficiency of {ENOUGH:.0%}; {cell} is nearest to it."]
    why = "there is no interval" if efficiency.low is None else f"its interval begins at {efficiency.low:.0%}"
    return [f"The efficiency of {cell} is {efficiency.value:.0%}, but {why}: {ENOUGH:.0%} is not shown."]


def _left_out(steps: int, blocks: list[Block]) -> str:
    said = []
    if steps:
        said.append(f"{steps} more cells are in the table of runner summarize.")
    if blocks:
        places = sorted({one_line(block.first.hardware, 80) for block in blocks})
        said.append(f"Not here: {len(blocks)} older tables of this experiment, on {listing(places[:3])}.")
    return " ".join(said)
