"""One page for a proposal for computing time: how far an experiment scales on a machine, and what a run costs.

The baseline is the smallest cell that completed, because a model may not fit into less: speed-ups are over it, and the
ideal one is the ratio of processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from runner.core.errors import RequestError, did_you_mean
from runner.core.text import one_line
from runner.report.cells import processes
from runner.report.notes import granted
from runner.tools.pages.document import environment_of_templates, plot_prefix
from runner.tools.pages.lines import choose_lines, line_of, not_drawn, point_of
from runner.tools.pages.scaling_plots import draw_speed_up
from runner.tools.pages.steps import node_hours, steps_of
from runner.tools.pages.style import Plot, drawing
from runner.tools.pages.subject import Subject, is_slow_down, listing, show_interval, show_ratio, show_seconds
from runner.tools.pages.tex import tex

if TYPE_CHECKING:
    from jinja2 import Environment

    from runner.report.rows import Block, Row
    from runner.tools.pages.details import DetailReader
    from runner.tools.pages.lines import Lines
    from runner.tools.pages.select import Selection
    from runner.tools.pages.steps import Step

MOST_STEPS = 12
"""Cells on the page: more do not fit beside the plot."""
ENOUGH = 0.7
"""The efficiency that computing centres commonly ask for."""
_LONGEST_FACT, _LONGEST_WHY, _LONGEST_NAME = 200, 60, 16
_SCALING = {
    "strong": "Strong scaling: the work is the same in every row, so the ideal speed-up is the ratio of processes.",
    "weak": "Weak scaling: the batch of a process is the same in every row, so the global batch grows with them; the"
    " speed-up is that of samples per second, and the ideal one is the ratio of processes.",
}


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
    steps = steps_of(block, reader)
    if not steps:
        raise RequestError(f"{one_line(block.first.experiment)}: no run is complete, so there is no evidence to show")
    shown = steps[:MOST_STEPS]
    points = [point_of(step.row, step.base, step.speedup, claimed=step.claimed is True) for step in shown]
    lines = choose_lines(points, "")
    with drawing():
        figure = draw_speed_up(lines, [])
    caption = _caption(lines)
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
        loader=PackageLoader("runner.tools.pages"),
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
        raise RequestError("no runs, so there is no evidence to show; make a first one with: runner run quickstart")
    if len(experiments) > 1:
        named = did_you_mean("", experiments).removeprefix("; ")
        raise RequestError(f"--evidence is a page about one experiment: choose it with --experiment; {one_line(named)}")
    newest = max(selection.blocks, key=lambda block: max(run.started for row in block.rows for run in row.runs))
    return newest, [block for block in selection.blocks if block is not newest]


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


def _caption(lines: Lines) -> str:
    one = len(lines.bases) == 1
    over = f"over {processes(min(lines.bases))}" if one else "over each line's baseline, times the processes of that"
    return f"Speed-up {over}, with 95% intervals, beside the ideal line.{not_drawn(lines.left_out, 'line')}"


def _baseline(steps: list[Step], block: Block) -> str:
    """Name the smallest complete cell of each line: what the speed-ups and efficiencies are over."""
    bases = [_base(step.row, block) for step in steps if step.row is step.base]
    return f"Smallest feasible baseline{'' if len(bases) == 1 else 's, one for each line'}: {'. '.join(bases)}."


def _base(base: Row, block: Block) -> str:
    seconds = f"{show_seconds(base.seconds.value)}" if base.seconds else ""
    of_line = [row.first for row in block.rows if line_of(row) == line_of(base) and not row.complete]
    smaller = [run.cell for run in of_line if run.processes < base.first.processes]
    failed = f"; {listing(smaller)} did not complete" if smaller else ""
    one = "" if base.first.processes == 1 or failed else "; smaller ones were not run"
    return f"{base.first.cell}, {processes(base.first.processes)}, {seconds}{failed}{one}"


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
    return [
        str(step.nodes),
        str(row.first.processes),
        *(one_line(row.first.axes.get(axis, ""), _LONGEST_NAME) for axis in axes),
        str(len(row.complete)),
        times,
        show_interval(step.speedup) if step.speedup.low else show_ratio(step.speedup.value),
        f"{step.efficiency.value:.0%}",
        "" if step.node_hours is None else f"{step.node_hours:.3g}",
        "yes" if step.claimed is True else one_line(step.claimed, _LONGEST_WHY),
    ]


def _findings(block: Block, steps: list[Step], reader: DetailReader) -> list[str]:
    """Say what the table comes to: how far it scales, what may be claimed, and what was spent."""
    others = [step for step in steps if step.row is not step.base]
    found = _how_far(others)
    claimed = [step for step in others if step.claimed is True]
    if claimed:
        named = [f"{step.row.first.cell}{' (a slow-down)' if is_slow_down(step.speedup) else ''}" for step in claimed]
        same = "of the same code, data, work and kind of machine"
        found.append(f"Claimed, with three runs or more on both sides, {same}: {listing(named)}.")
        found += [f"{note[:1].upper()}{note[1:]}." for note in granted(block)]
    elif others:
        found.append("None of the speed-ups may be claimed; the last column says why.")
    spent = [node_hours(row, reader) for row in block.rows for _ in row.complete]
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
        reached += f" as {widest.base.first.cell}"
        return [f"The efficiency is {ENOUGH:.0%} or more up to {widest.row.first.cell} ({reached})."]
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
