"""Selection -> the page: sections are laid out one after the other, until it has as many bytes as it may have."""

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
from runner.tools.pages.section import Section, Size, draw, section_of
from runner.tools.pages.select import HERE, Selection
from runner.tools.pages.style import Plot
from runner.tools.pages.subject import Subject

MOST_BYTES = 980_000
"""Bytes of a page."""
MOST_PLOTS = 48
"""Plots of a page: each takes a tenth of a second and some ten thousand bytes."""
FEWEST_PLOTS = 3
"""Plots of a block, as long as there are any to give."""
_BYTES_OF_A_PLOT = 4_000
"""The fewest that one has."""
_RESERVED = 60_000
"""Bytes kept for the head of the page and for the list of what is not on it."""
_SIZES = (Size(200, 20), Size(60, 8), Size(20, 3))
"""What a block is laid out with, without plots: fewer rows and runs if it does not fit."""
_MOST_NAMED = 300
_MOST_NOTES = 50


class Page(NamedTuple):
    """The HTML of a page, its plots, and what a person is told about it."""

    html: str
    plots: list[Plot]
    notes: list[str]


def make_page(selection: Selection, title: str) -> Page:
    """Lay out a page; the same results give the same bytes."""
    reader = DetailReader(HERE)
    environment = _environment()
    blocks = selection.blocks
    order = sorted(range(len(blocks)), key=lambda place: (_newest(blocks[place]), place), reverse=True)
    made: dict[int, tuple[Section, str]] = {}
    left_out: list[Section] = []
    room, plots = MOST_BYTES - _RESERVED, MOST_PLOTS
    for turn, place in enumerate(order):  # the newest first, in case not all fit
        subject = Subject(blocks[place], reader, _plot_prefix(place, blocks[place].first.experiment))
        for size in _SIZES:
            section = section_of(subject, place + 1, size)
            bare = _render(environment, section)
            if len(bare) <= room:
                break
        if len(bare) > room:
            left_out.append(section)
            continue
        share = max(FEWEST_PLOTS, plots // (len(order) - turn))
        draw(subject, section, min(plots, share, (room - len(bare)) // _BYTES_OF_A_PLOT))
        text = _render(environment, section)
        plots -= len(section.plots)
        if len(text) > room:
            section.plots, section.more_plots = [], True
            text = bare
        room -= len(text)
        made[place] = section, text.decode()
    shown = [made[place] for place in sorted(made)]
    return _whole(environment, selection, shown, left_out, title, reader.left_out)


def _whole(
    environment: Environment,
    selection: Selection,
    shown: list[tuple[Section, str]],
    left_out: list[Section],
    title: str,
    unread: int,
) -> Page:
    others = selection.left_out + [f"{section.title}: {section.runs:,} runs" for section in left_out]
    told = [*([] if style.can_draw() else [style.NO_PLOTS]), *selection.notes]
    why = f"{unread:,} records were not read for their provenance: they are too large, or broken"
    notes = [*told, why] if unread else told
    sections = [section for section, _ in shown]
    template = environment.get_template("report.html.j2")
    html = template.render(
        title=title,
        sections=sections,
        bodies=[Markup(text) for _, text in shown],  # noqa: S704 - made by the template above, which escapes
        runs=selection.runs,
        verdict=_verdict(sections),
        others=others[:_MOST_NAMED],
        more_others=max(0, len(others) - _MOST_NAMED),
        notes=notes[:_MOST_NOTES],
        more_notes=max(0, len(notes) - _MOST_NOTES),
        confidence=CONFIDENCE,
        version=__version__,
    )
    return Page(html, [plot for section in sections for plot in section.plots], told)


def _verdict(sections: list[Section]) -> str:
    """Return how many of the speed-ups of a page may be claimed, and how many slow-downs."""
    slower = sum(section.slow_downs for section in sections)
    faster = sum(len(section.claimed) for section in sections) - slower
    compared = faster + sum(len(section.refused) for section in sections)
    if not compared and not slower:
        return "There is no speed-up to claim."
    slow_downs = f"{slower} slow-down{'' if slower == 1 else 's'}"
    if not compared:
        return f"{slow_downs} may be claimed."
    speed_ups = f"{faster} of {compared} speed-up{'' if compared == 1 else 's'} may be claimed"
    return f"{speed_ups}, and {slow_downs}." if slower else f"{speed_ups}."


def _plot_prefix(place: int, experiment: str) -> str:
    """Begin the file names of a block's plots: whatever the experiment is called, it stays in its folder."""
    word = "".join(letter if letter.isascii() and (letter.isalnum() or letter == "-") else "-" for letter in experiment)
    return f"{place + 1:02}-{word[:60]}"


def _environment() -> Environment:
    """Return the templates of pages; each text is escaped for HTML, and made one printable line first."""
    return Environment(
        loader=PackageLoader("runner.tools.pages"),
        undefined=StrictUndefined,
        autoescape=True,
        finalize=lambda value: one_line(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _render(environment: Environment, section: Section) -> bytes:
    plots = [(plot, Markup(style.inline(plot, plot.name))) for plot in section.plots]  # noqa: S704 - matplotlib escapes
    template = environment.get_template("section.html.j2")
    return template.render(section=section, plots=plots, seconds=page_seconds).encode()


def _newest(block: Block) -> str:
    """Return when the newest run of a block was started."""
    return max(run.started for row in block.rows for run in row.runs)
