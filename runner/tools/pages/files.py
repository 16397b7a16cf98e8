"""The page and its plots as files."""

from contextlib import ExitStack
from pathlib import Path

from runner.core.errors import RequestError
from runner.core.output import write_outputs
from runner.core.text import one_line
from runner.records.unpacking import opened
from runner.tools.pages import style
from runner.tools.pages.document import Page, make_page
from runner.tools.pages.select import select


def page_of(sources: list[Path], experiment: str | None = None) -> Page:
    """Make the page of some folders of records and archives of them."""
    names = [one_line(source.absolute().name or source, 60) for source in sources[:4]]
    title = experiment or ("Results" if names == ["results"] else f"Results: {', '.join(names)}")
    with ExitStack() as stack:
        archives = {source: stack.enter_context(opened(source)) for source in sources if source.is_file()}
        folders = [archives[source].results if source in archives else source for source in sources]
        page = make_page(select(folders, experiment), title)
    altered = [f"{path}: not as it was packed: {fault}" for path, kit in archives.items() for fault in kit.faults]
    html, notes = page.html, altered + page.notes
    for kit in archives.values():
        html, notes = kit.within(html), [kit.within(note) for note in notes]
    return page._replace(html=html, notes=notes)


def write_report(sources: list[Path], output: Path, *, experiment: str | None, plots: Path | None) -> list[str]:
    """Write the page of some results, and its plots if there is a folder for them; say what was written."""
    page = page_of(sources, experiment)
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
