"""The page and its plots as files."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from runner.core.errors import RequestError
from runner.report.page import style
from runner.report.page.document import make_page
from runner.report.page.select import select
from trainkit import files

if TYPE_CHECKING:
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
    return experiment or f"Results of {', '.join(folder.absolute().name or str(folder) for folder in folders[:4])}"


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
    raise NotImplementedError
