"""Define the style of plots, and write plots as reproducible SVG or PNG.

The colours are those of Okabe and Ito (Color Universal Design, 2008), which colour-blind readers can distinguish. In a
page, the colours are CSS variables with different values for light mode, dark mode and print.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from runner.core.errors import RequestError
from runner.core.text import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LIBRARY = "matplotlib"
WAY_OUT = "install it with make report, or pip install 'distributed-experiment-kit[report]'"
NO_PLOTS = f"the page has no plots, because the package {LIBRARY} is missing; {WAY_OUT}"
WIDTH, HEIGHT = 4.9, 3.0
"""Inches of a plot. At 72 points per inch, a plot fits a phone without smaller text."""
INK, MUTED, GRID, PAPER = "#1b1d22", "#646b75", "#dce0e5", "#fffffe"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)), (0, (3, 1)), (0, (8, 2)))
MOST_SERIES = len(SERIES)
LONGEST_NAME = 44
_LETTERS = 70
"""Characters that fit in a row of the legend, where a line sample counts as eight."""
_LEGEND_INCHES = 0.19
_DECADE = 10
_VARIABLES = {
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--grid)",
    PAPER: "var(--paper)",
    **{colour: f"var(--c{number})" for number, colour in enumerate(SERIES)},
}
_COLOUR = re.compile("|".join(_VARIABLES))
_PROLOGUE = re.compile(r"^.*?(?=<svg)", re.DOTALL)
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
_STYLES = re.compile(r"\s*<defs>\s*<style.*?</style>\s*</defs>", re.DOTALL)
_TAG = re.compile(r"<[^>]+>")
_GROUP = re.compile(r'<g id="[\w.-]*">')
_SIZE = re.compile(r'<svg [^>]*?width="([\d.]+)pt" height="([\d.]+)pt"[^>]*>')
_FONT = re.compile(r"font-family: [^;\"]*; ?|; ?font-family: [^;\"]*(?=\")")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_RC: dict[Any, Any] = {
    "svg.fonttype": "none",  # text in the page's font, at a third of the size of outlines
    "text.parse_math": False,  # names may contain $
    "text.usetex": False,
    "font.family": ["DejaVu Sans"],
    "font.size": 9.5,
    "axes.labelsize": 9.5,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "axes.formatter.useoffset": False,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "text.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "lines.markeredgewidth": 1.1,
    "hatch.linewidth": 0.6,
    "hatch.color": PAPER,
    "path.simplify": True,
}


class Plot(NamedTuple):
    """A plot with the name of its file, its title and its caption."""

    name: str
    title: str
    caption: str
    figure: Figure


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec(LIBRARY) is not None


def require_plots(what: str) -> None:
    """Raise RequestError if matplotlib is not installed. `what` names the feature that needs plots."""
    if not can_draw():
        raise RequestError(f"{what} needs the package {LIBRARY}; {WAY_OUT}")


@contextmanager
def drawing() -> Iterator[None]:
    """Apply the kit's style regardless of the user's matplotlibrc, and ignore warnings such as missing glyphs."""
    import matplotlib as mpl

    with warnings.catch_warnings(), mpl.rc_context():
        warnings.simplefilter("ignore")
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)
        yield


def axes(height: float = HEIGHT) -> tuple[Figure, Axes]:
    """Make an empty figure with one pair of axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), facecolor="none", layout="constrained")
    return figure, figure.add_subplot()


def series(number: int) -> dict[str, Any]:
    """Return the keywords of `plot` for a series. Earlier lines are wider, so that they show below later lines."""
    place = number % MOST_SERIES
    look = {"color": SERIES[place], "marker": MARKERS[place], "linestyle": DASHES[place], "markeredgecolor": PAPER}
    return {**look, "linewidth": 2.6 - 0.28 * place, "markersize": 7.5 - 0.6 * place}


def finish(figure: Figure, axes: Axes) -> None:
    """Add the legend above the plot, in as many columns as fit, and make the figure taller by the legend's height."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        columns = max(1, min(3, _LETTERS // (max(map(len, labels)) + 8), len(labels)))
        rows = -(-len(labels) // columns)
        figure.set_size_inches(WIDTH, figure.get_figheight() + _LEGEND_INCHES * rows)
        figure.legend(handles, labels, loc="outside upper left", ncols=columns, borderaxespad=0, handlelength=2.6)


def logarithmic(axes: Axes, axis: Literal["x", "y"], base: int, write: Callable[[float], str] = "{:g}".format) -> None:
    """Make an axis logarithmic, with plain numbers instead of powers at its ticks."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    (axes.set_xscale if axis == "x" else axes.set_yscale)("log", base=base)
    scale = axes.xaxis if axis == "x" else axes.yaxis
    scale.set_major_locator(LogLocator(base, (1, 2, 5) if base == _DECADE else (1,), numticks=9))
    scale.set_major_formatter(FuncFormatter(lambda value, _: write(value)))
    scale.set_minor_formatter(NullFormatter())


def name(text: object) -> str:
    """Shorten a text to a printable name for a legend or tick."""
    return one_line(text, LONGEST_NAME)


def inline(plot: Plot, prefix: str) -> str:
    """Return a plot as SVG with the colours of the page. The ids in the SVG depend on `prefix`."""
    text = _PROLOGUE.sub("", _METADATA.sub("", _STYLES.sub("", _svg(plot, prefix))))
    text = _TAG.sub(lambda match: _for_a_page(match[0]), text)
    text = re.sub(r">\s+<", "><", text)
    return _SIZE.sub(r'<svg viewBox="0 0 \1 \2" role="img" xmlns:xlink="http://www.w3.org/1999/xlink">', text, count=1)


def _for_a_page(tag: str) -> str:
    tag = _FONT.sub("", _GROUP.sub("<g>", tag))
    tag = _LONG_NUMBER.sub(lambda match: f"{float(match[0]):.2f}".rstrip("0").rstrip("."), tag)
    return _COLOUR.sub(lambda match: _VARIABLES[match[0]], tag).replace(" \n", " ").replace("\n", "")


def as_svg(plot: Plot) -> bytes:
    """Return a plot as a standalone SVG file on white."""
    return _METADATA.sub("", _svg(plot, plot.name, "white")).encode()


def as_png(plot: Plot) -> bytes:
    """Return a plot as a PNG file on white, with 200 dots per inch."""
    data = io.BytesIO()
    with drawing():
        plot.figure.savefig(data, format="png", dpi=200, facecolor="white", metadata={"Software": None})
    return data.getvalue()


def _svg(plot: Plot, salt: str, facecolor: str = "none") -> str:
    import matplotlib as mpl

    data = io.StringIO()
    with drawing():
        mpl.rcParams["svg.hashsalt"] = salt
        plot.figure.savefig(data, format="svg", facecolor=facecolor, metadata={"Date": None, "Creator": None})
    return data.getvalue()
