"""Lay out blocks as sections of a page. The newest blocks are chosen until the page is full."""

from collections import defaultdict
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from runner import __version__
from runner.core.text import one_line
from runner.report.columns import page_seconds
from runner.report.rows import Block
from runner.report.statistics import CONFIDENCE
from runner.tools.pages import style
from runner.tools.pages.details import DetailReader
from runner.tools.pages.section import Section, draw, section_of
from runner.tools.pages.style import Plot
from runner.tools.pages.subject import Subject

MOST_BYTES = 980_000
MOST_PLOTS = 48
"""Each plot takes a tenth of a second and about ten thousand bytes."""
FEWEST_PLOTS = 3
"""Plots that each block may have until the page has `MOST_PLOTS`."""
MOST_BLOCKS = 30
_RESERVED = 60_000
"""Bytes reserved for the head of the page and for the list of blocks that are not on the page."""
_MOST_NAMED = 300
_MOST_NOTES = 50


class Page(NamedTuple):
    """The HTML of a page, its plots, and notes for the user."""

    html: str
    plots: list[Plot]
    notes: list[str]


def make_page(blocks: list[Block], title: str, notes: list[str]) -> Page:
    """Lay out a page. The same results give the same bytes."""
    reader, environment = DetailReader(), _environment()
    newest_first = sorted(range(len(blocks)), key=lambda place: (_newest(blocks[place]), place), reverse=True)
    made: dict[int, tuple[Section, str]] = {}
    room, plots = MOST_BYTES - _RESERVED, MOST_PLOTS
    for turn, place in enumerate(newest_first[:MOST_BLOCKS]):
        subject = Subject(blocks[place], reader, _plot_prefix(place, blocks[place].first.experiment))
        section = section_of(subject, place + 1)
        text = _render(environment, section)
        if len(text.encode()) > room:
            continue
        draw(subject, section, min(plots, max(FEWEST_PLOTS, plots // (min(len(blocks), MOST_BLOCKS) - turn))))
        with_plots = _render(environment, section)
        if len(with_plots.encode()) > room:
            section.plots, section.more_plots, plots = [], True, 0
            text = _render(environment, section)
        else:
            text, plots = with_plots, plots - len(section.plots)
        room -= len(text.encode())
        made[place] = section, text
    notes = [*([] if style.can_draw() else [style.NO_PLOTS]), *notes]
    if reader.left_out:
        notes.append(f"the page lacks the provenance of {reader.left_out:,} records, which are too large or broken")
    sections = [made[place][0] for place in sorted(made)]
    others = _counted([block for place, block in enumerate(blocks) if place not in made])
    claimed = sum(len(section.claimed) for section in sections)
    compared = claimed + sum(len(section.refused) for section in sections)
    html = environment.get_template(
        "report.html.j2"
    ).render(
        title=title,
        sections=sections,
        bodies=[Markup(made[place][1]) for place in sorted(made)],  # noqa: S704 - a template escaped it
        runs=sum(len(row.runs) for block in blocks for row in block.rows),
        verdict=f"{claimed} of {compared} comparisons may be claimed." if compared else "There is nothing to compare.",
        others=others[:_MOST_NAMED],
        more_others=max(0, len(others) - _MOST_NAMED),
        notes=notes[:_MOST_NOTES],
        more_notes=max(0, len(notes) - _MOST_NOTES),
        confidence=CONFIDENCE,
        version=__version__,
    )
    return Page(html, [plot for section in sections for plot in section.plots], notes)


def _newest(block: Block) -> str:
    return max(run.started for row in block.rows for run in row.runs)


def _counted(blocks: list[Block]) -> list[str]:
    runs: dict[str, list[int]] = defaultdict(list)
    for block in blocks:
        runs[block.first.experiment].append(sum(len(row.runs) for row in block.rows))
    return [f"{name}: {len(counts):,} tables, {sum(counts):,} runs" for name, counts in sorted(runs.items())]


def _plot_prefix(place: int, experiment: str) -> str:
    word = "".join(letter if letter.isascii() and (letter.isalnum() or letter == "-") else "-" for letter in experiment)
    return f"{place + 1:02}-{word[:60]}"


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("runner.tools.pages"),
        undefined=StrictUndefined,
        autoescape=True,
        finalize=lambda value: one_line(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _render(environment: Environment, section: Section) -> str:
    plots = [(plot, Markup(style.inline(plot, plot.name))) for plot in section.plots]  # noqa: S704 - matplotlib escapes
    return environment.get_template("section.html.j2").render(section=section, plots=plots, seconds=page_seconds)
