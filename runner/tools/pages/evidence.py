"""One page for a proposal for computing time: how far an experiment scales on a machine, and what a run costs.

The baseline is the smallest cell that completed, because a model may not fit into less: speed-ups are over it, and the
ideal one is the ratio of processes.
"""

from itertools import takewhile
from typing import Any, NamedTuple

from markupsafe import Markup

from runner.core.errors import RequestError, did_you_mean
from runner.core.text import one_line
from runner.report.cells import page_ratio, page_seconds, processes
from runner.report.columns import Column, columns_of
from runner.report.notes import SAY_SCALING, granted
from runner.report.rows import Block, Row
from runner.tools.pages.details import DetailReader
from runner.tools.pages.document import environment_of_html, environment_of_templates, newest, plot_prefix
from runner.tools.pages.lines import Lines, choose_lines, line_of, not_drawn, points_of
from runner.tools.pages.scaling_plots import draw_speed_up
from runner.tools.pages.select import Selection
from runner.tools.pages.steps import node_hours, nodes_of, steps_of
from runner.tools.pages.style import Plot, drawing
from runner.tools.pages.subject import Subject, is_slow_down, listing

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


_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "×": r"\texttimes{}",  # noqa: RUF001 - the sign itself
    "÷": r"\textdiv{}",
}
_FIRST_LETTER, _LAST_LETTER = "\u00c0", "\u00ff"


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
    confidence: str


def make_evidence(selection: Selection, reader: DetailReader) -> tuple[Evidence, Plot]:
    """Sum up the newest block of the one experiment that was chosen; RequestError if there is nothing to sum up."""
    block, others = _choose(selection)
    steps = steps_of(block)
    if not steps:
        raise RequestError(f"{one_line(block.first.experiment)}: no run is complete, so there is no evidence to show")
    if not any(step.speedup for step in steps):
        raise RequestError(f"{one_line(block.first.experiment)}: {SAY_SCALING}")
    shown = steps[:MOST_STEPS]
    lines = choose_lines(points_of(shown, lambda row: row.speedup), "")
    with drawing():
        figure = draw_speed_up(lines, [])
    caption = _caption(lines, block)
    name = f"{plot_prefix(0, block.first.experiment)}-evidence"
    bases = [_base(step, block) for step in shown if step.is_baseline]
    evidence = Evidence(
        title=f"Scaling of {block.first.experiment}",
        question=str(block.definition.get("summary", "")),
        scaling=_SCALING.get(block.first.scaling or "", f"Scaling: {block.first.scaling or 'not known'}."),
        facts=_facts(Subject(block, reader, name)),
        baseline=f"Smallest feasible baseline{'' if len(bases) == 1 else 's, one for each line'}: {'. '.join(bases)}.",
        **_table(block, shown, reader),
        findings=_findings(block, shown, reader),
        caption=caption,
        left_out=_left_out(len(steps) - len(shown), others),
        confidence=str(block.confidence),
    )
    return evidence, Plot(name, "Speed-up", caption, figure)


def as_html(evidence: Evidence, svg: str) -> str:
    """Lay the page out."""
    template = environment_of_html().get_template("evidence.html.j2")
    return template.render(evidence=evidence, svg=Markup(svg))  # noqa: S704 - matplotlib escapes


def as_tex(evidence: Evidence, picture: str) -> str:
    """Write the page as a LaTeX document that shows a picture beside it."""
    own = Markup(picture)  # noqa: S704 - a name of letters, digits and hyphens
    environment = environment_of_templates(
        tex,
        block_start_string="<%",  # other brackets than LaTeX's own
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
        comment_start_string="<#",
        comment_end_string="#>",
        keep_trailing_newline=True,
    )
    return environment.get_template("evidence.tex.j2").render(evidence=evidence, picture=own)


def tex(value: object) -> str:
    """Write a value as LaTeX text; a letter that its usual fonts lack becomes its number, for example [U+4E2D]."""
    text = "".join(_letter(letter) for letter in one_line(value))
    return text.replace("--", "-{}-").replace("--", "-{}-")  # two in an option of a command are no dash


def _letter(letter: str) -> str:
    if letter in _SPECIAL:
        return _SPECIAL[letter]
    known = letter.isascii() or _FIRST_LETTER <= letter <= _LAST_LETTER
    return letter if known else f"[U+{ord(letter):04X}]"


def _choose(selection: Selection) -> tuple[Block, list[Block]]:
    """Return the newest block, and the others of its experiment; a page is about one experiment."""
    experiments = sorted({block.first.experiment for block in selection.blocks})
    if not experiments:
        raise RequestError("no runs, so there is no evidence to show; `runner` alone says how to make a first one")
    if len(experiments) > 1:
        named = did_you_mean("", experiments).removeprefix("; ")
        raise RequestError(f"--evidence is a page about one experiment: choose it with --experiment; {one_line(named)}")
    chosen = max(selection.blocks, key=newest)
    return chosen, [block for block in selection.blocks if block is not chosen]


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


def _caption(lines: Lines, block: Block) -> str:
    over = "each line's baseline, times the processes of that"
    over = processes(min(lines.bases)) if len(lines.bases) == 1 else over
    more = not_drawn(lines.left_out, "line")
    return f"Speed-up over {over}, with {block.confidence} intervals, beside the ideal line.{more}"


def _base(base: Row, block: Block) -> str:
    """Name the smallest complete cell of a line: what its speed-ups and efficiencies are over."""
    seconds = f"{page_seconds(base.seconds.value)} s" if base.seconds else ""
    of_line = [row.first for row in block.rows if line_of(row) == line_of(base) and not row.complete]
    smaller = [run.cell for run in of_line if run.processes < base.first.processes]
    failed = f"; {listing(smaller)} did not complete" if smaller else ""
    why = "" if base.first.processes == 1 or failed else "; smaller ones were not run"
    return f"{base.first.cell}, {processes(base.first.processes)}, {seconds}{failed}{why}"


def _table(block: Block, steps: list[Row], reader: DetailReader) -> dict[str, Any]:
    """Lay the cells out, with more of each than the table of the summary has."""
    hours = "{:.3g}".format
    columns = [
        Column("nodes", nodes_of, "nodes"),
        *columns_of(block, ("processes", "axes", "n", "seconds", "speedup", "efficiency")),
        Column("node_hours", lambda row: node_hours(row, reader), "node-hours a run", hours),
        *columns_of(block, ("claimed",)),
    ]
    longest = {**dict.fromkeys(block.axes, _LONGEST_NAME), "claimed": _LONGEST_WHY}
    most = [(column, longest.get(column.key, _LONGEST_FACT)) for column in columns]
    lines = [[one_line(column.cell(step, on_page=True), length) for column, length in most] for step in steps]
    return {"head": [column.head_of(block) for column in columns], "lines": lines}


def _findings(block: Block, steps: list[Row], reader: DetailReader) -> list[str]:
    """Return what the table comes to: how far it scales, what may be claimed, and what was spent."""
    others = [step for step in steps if not step.is_baseline]
    found = _how_far(others)
    claimed = [step for step in others if step.claimed is True]
    if claimed:
        named = [f"{step.first.cell}{' (a slow-down)' if is_slow_down(step.speedup) else ''}" for step in claimed]
        same = "of the same code, data, work and kind of machine"
        found.append(f"Claimed, with three runs or more on both sides, {same}: {listing(named)}.")
        found += [f"{note[:1].upper()}{note[1:]}." for note in granted(block)]
    elif others:
        found.append("None of the speed-ups may be claimed; the last column says why.")
    spent = [node_hours(row, reader) for row in block.rows for _ in row.complete]
    known = [hours for hours in spent if hours is not None]
    found += [f"These {len(known)} runs took {sum(known):.3g} node-hours."] if known else []
    return found


def _how_far(others: list[Row]) -> list[str]:
    """Return up to which cell the efficiency is enough, by the low end of its interval; without one none is shown."""
    known = [(step, step.efficiency) for step in others if step.efficiency]
    upwards = sorted(known, key=lambda found: found[0].first.processes)
    enough = list(takewhile(lambda found: found[0].claimed is True and (found[1].low or 0.0) >= ENOUGH, upwards))
    if enough:
        widest, efficiency = enough[-1]
        faster = page_ratio(widest.speedup.value) if widest.speedup else ""
        base = widest.baseline.first.cell if widest.baseline else ""
        from_ = f"{widest.confidence} interval from {efficiency.low:.0%}"
        reached = f"{efficiency.value:.0%}, {from_}; {faster} times as fast as {base}"
        return [f"The efficiency is {ENOUGH:.0%} or more up to {widest.first.cell} ({reached})."]
    if not known:
        return []
    best, efficiency = max(known, key=lambda found: found[1].value)
    cell = best.first.cell
    if efficiency.value < ENOUGH:
        return [f"No larger layout than the baseline reaches an efficiency of {ENOUGH:.0%}; {cell} is nearest to it."]
    why = "there is no interval" if efficiency.low is None else f"its interval begins at {efficiency.low:.0%}"
    return [f"The efficiency of {cell} is {efficiency.value:.0%}, but {why}: {ENOUGH:.0%} is not shown."]


def _left_out(steps: int, blocks: list[Block]) -> str:
    said = []
    said += [f"{steps} more cells are in the table of runner summarize."] if steps else []
    if blocks:
        places = sorted({one_line(block.first.hardware, 80) for block in blocks})
        said.append(f"Not here: {len(blocks)} older tables of this experiment, on {listing(places[:3])}.")
    return " ".join(said)
