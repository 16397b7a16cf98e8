"""The page and its plots as files."""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING, NamedTuple

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.report.page import style
from runner.report.page.details import DetailReader
from runner.report.page.document import make_page
from runner.report.page.evidence import as_html, as_tex, make_evidence
from runner.report.page.select import HERE, select
from trainkit import files

if TYPE_CHECKING:
    from pathlib import Path

    from runner.report.page.style import Plot


class Written(NamedTuple):
    """What a person is told: notes about the results, and the files that were written."""

    notes: list[str]
    written: list[str]


def write_report(folders: list[Path], output: Path, *, experiment: str | None, plots: Path | None) -> Written:
    """Write the page of some results folders, and its plots if there is a folder for them."""
    page = make_page(select(folders, experiment), _title(folders, experiment))
    written = [_write(output, page.html.encode())]
    if plots is not None:
        written += write_plots(page.plots, plots)
    return Written(page.notes, written)


def write_plots(plots: list[Plot], folder: Path) -> list[str]:
    """Write each plot as SVG and PNG."""
    _make(folder)
    for plot in plots:
        _write(folder / f"{plot.name}.svg", style.as_svg(plot))
        _write(folder / f"{plot.name}.png", style.as_png(plot))
    return [f"{folder}: {len(plots)} plots, each as SVG and PNG"]


def _title(folders: list[Path], experiment: str | None) -> str:
    names = [one_line(folder.absolute().name or folder, 60) for folder in folders[:4]]
    return experiment or ("Results" if names == ["results"] else f"Results: {', '.join(names)}")


def _write(path: Path, data: bytes) -> str:
    try:
        files.write_file(path, data)
    except OSError as error:
        why = error.strerror or error
        if error.errno == errno.ENOENT:
            why = "there is no such folder to write it to"
        msg = f"{path}: cannot be written: {why}"
        raise RequestError(msg) from None
    return f"{path}: {len(data):,} bytes"


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"{folder}: cannot be made: {error.strerror}"
        raise RequestError(msg) from None


def write_evidence(folders: list[Path], output: Path, *, experiment: str | None, plots: Path | None) -> Written:
    """Write the page for a proposal; beside it the same as LaTeX, and the plot that the LaTeX file shows."""
    selection = select(folders, experiment)
    evidence, plot = make_evidence(selection, DetailReader(HERE))
    name = _plain(output.stem)
    picture = output.with_name(f"{name}-speed-up.pdf")
    written = [
        _write(output, as_html(evidence, style.inline(plot, plot.name)).encode()),
        _write(output.with_name(f"{name}.tex"), as_tex(evidence, picture.name).encode()),
        _write(picture, style.as_pdf(plot)),
    ]
    if plots is not None:
        written += write_plots([plot], plots)
    return Written(selection.notes, written)


def _plain(stem: str) -> str:
    """Return a file's name without what LaTeX would take for a command or an end of the name."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-") or "report"
