"""Make the page of some results folders and archives, and write the page and its plots to files."""

from contextlib import ExitStack
from pathlib import Path

import msgspec

from runner.core.errors import RequestError
from runner.core.output import write_outputs
from runner.core.text import one_line
from runner.records.unpacking import opened
from runner.report.rows import Block
from runner.report.run_summary import RunSummary
from runner.report.summarize import NO_RUNS, blocks_of, read_results, require_experiment
from runner.tools.pages import style
from runner.tools.pages.document import Page, make_page

_HERE = Path()


def page_of(sources: list[Path], experiment: str | None = None) -> Page:
    """Make the page of some results folders and archives. Raises RequestError if a folder is missing."""
    names = [one_line(source.absolute().name or source, 60) for source in sources[:4]]
    title = experiment or ("Results" if names == ["results"] else f"Results: {', '.join(names)}")
    with ExitStack() as stack:
        archives = {source: stack.enter_context(opened(source)) for source in sources if source.is_file()}
        notes = [f"{path}: altered since packing: {fault}" for path, kit in archives.items() for fault in kit.faults]
        folders = [archives[source].results if source in archives else source for source in sources]
        page = make_page(_blocks(folders, experiment, notes), title, notes)
    for kit in archives.values():
        page = page._replace(html=kit.within(page.html), notes=[kit.within(note) for note in page.notes])
    return page


def _blocks(folders: list[Path], experiment: str | None, notes: list[str]) -> list[Block]:
    """Compare the runs of folders. Each run counts once, even if one folder contains another or is its copy.

    The path of a run in the blocks begins with the given folder.
    """
    runs: dict[tuple[str, str], RunSummary] = {}
    copies = 0
    for folder in folders:
        contents = read_results(folder)
        notes += contents.notes
        for run in contents.runs:
            place = run.path if len(folders) == 1 else run.path.rpartition("/")[2]
            msgspec.structs.force_setattr(run, "path", str(folder / run.path))
            copies += runs.setdefault((run.experiment, place), run) is not run
    notes += [f"{copies:,} runs are in more than one of the folders and count once"] if copies else []
    if experiment is not None:
        require_experiment(folders[0], experiment, {run.experiment for run in runs.values()})
    elif not runs:
        notes.append(f"{', '.join(map(str, folders))}: {NO_RUNS}")
    return blocks_of(_HERE, [run for run in runs.values() if experiment in (None, run.experiment)])


def write_report(sources: list[Path], output: Path, *, experiment: str | None, plots: Path | None) -> list[str]:
    """Write the page of some results. If `plots` is given, also write each plot as SVG and PNG. Returns lines to print.

    Raises RequestError if the folder `plots` cannot be created.
    """
    page = page_of(sources, experiment)
    html = page.html.encode()
    lines = [*(f"note: {note}" for note in page.notes), f"{output}: {len(html):,} bytes"]
    outputs = {output: html}
    if plots is not None:
        try:
            plots.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RequestError(f"{plots}: cannot be created: {error.strerror}") from None
        for plot in page.plots:
            outputs[plots / f"{plot.name}.svg"] = style.as_svg(plot)
            outputs[plots / f"{plot.name}.png"] = style.as_png(plot)
        lines.append(f"{plots}: {len(page.plots)} plots, each as SVG and PNG")
    write_outputs(outputs)
    return lines
