"""The page and its plots as files."""

import re
from pathlib import Path

from runner.core.errors import RequestError
from runner.core.output import write_outputs
from runner.core.text import one_line
from runner.tools.pages import style
from runner.tools.pages.details import DetailReader
from runner.tools.pages.document import make_page
from runner.tools.pages.evidence import as_html, as_tex, make_evidence
from runner.tools.pages.select import HERE, select
from runner.tools.pages.style import Plot


def page_of(results: Path, title: str) -> str:
    """Return the page of a results folder."""
    return make_page(select([results]), title).html


def write_report(folders: list[Path], output: Path, *, experiment: str | None, plots: Path | None) -> list[str]:
    """Write the page of some results folders, and its plots if there is a folder for them; say what was written."""
    names = [one_line(folder.absolute().name or folder, 60) for folder in folders[:4]]
    title = experiment or ("Results" if names == ["results"] else f"Results: {', '.join(names)}")
    page = make_page(select(folders, experiment), title)
    return _write({output: page.html.encode()}, page.plots, plots, page.notes)


def _write(outputs: dict[Path, bytes], plots: list[Plot], folder: Path | None, notes: list[str]) -> list[str]:
    """Write the files, and each plot as SVG and PNG if there is a folder for them."""
    told = [f"note: {note}" for note in notes]
    told += [f"{path}: {len(data):,} bytes" for path, data in outputs.items()]
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RequestError(f"{folder}: cannot be made: {error.strerror}") from None
        for plot in plots:
            outputs[folder / f"{plot.name}.svg"] = style.as_svg(plot)
            outputs[folder / f"{plot.name}.png"] = style.as_png(plot)
        told.append(f"{folder}: {len(plots)} plots, each as SVG and PNG")
    write_outputs(outputs)
    return told


def write_evidence(folders: list[Path], output: Path, *, experiment: str | None, plots: Path | None) -> list[str]:
    """Write the page for a proposal; beside it the same as LaTeX, and the plot that the LaTeX file shows."""
    selection = select(folders, experiment)
    evidence, plot = make_evidence(selection, DetailReader(HERE))
    # Without what LaTeX would take for a command or an end of the name.
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", output.stem).strip("-") or "report"
    picture = output.with_name(f"{name}-speed-up.pdf")
    outputs = {
        output: as_html(evidence, style.inline(plot, plot.name)).encode(),
        output.with_name(f"{name}.tex"): as_tex(evidence, picture.name).encode(),
        picture: style.as_pdf(plot),
    }
    return _write(outputs, [plot], plots, selection.notes)
