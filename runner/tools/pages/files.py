"""The page and its plots as files."""

from pathlib import Path

from runner.core.errors import RequestError
from runner.core.output import write_outputs
from runner.core.text import one_line
from runner.tools.pages import style
from runner.tools.pages.document import make_page
from runner.tools.pages.select import select


def page_of(results: Path, title: str) -> str:
    """Return the page of a results folder."""
    return make_page(select([results]), title).html


def write_report(folders: list[Path], output: Path, *, experiment: str | None, plots: Path | None) -> list[str]:
    """Write the page of some results folders, and its plots if there is a folder for them; say what was written."""
    names = [one_line(folder.absolute().name or folder, 60) for folder in folders[:4]]
    title = experiment or ("Results" if names == ["results"] else f"Results: {', '.join(names)}")
    page = make_page(select(folders, experiment), title)
    told = [*(f"note: {note}" for note in page.notes), f"{output}: {len(page.html.encode()):,} bytes"]
    outputs = {output: page.html.encode()}
    if plots is not None:
        try:
            plots.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RequestError(f"{plots}: cannot be made: {error.strerror}") from None
        for plot in page.plots:
            outputs[plots / f"{plot.name}.svg"] = style.as_svg(plot)
            outputs[plots / f"{plot.name}.png"] = style.as_png(plot)
        told.append(f"{plots}: {len(page.plots)} plots, each as SVG and PNG")
    write_outputs(outputs)
    return told
