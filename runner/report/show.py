"""A results folder -> the texts of its tables: what `runner summarize` does, from one end to the other.

The texts of a folder's blocks are taken from the cache as long as none of its records has changed; nothing else is read
for them, and what makes texts is not even imported.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from runner.core.errors import RequestError, did_you_mean
from runner.core.text import one_line
from runner.records.listing import list_shelves
from runner.report.cache import Cache, Page

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from runner.records.listing import Shelf
    from runner.report.cache import BlockKey

NO_RUNS = "no runs in it yet; make a first one with: runner run quickstart"


def show(results: Path, form: str, experiment: str | None = None) -> tuple[list[str], list[str]]:
    """Return the text of each block in one of the `FORMS`, in order, and a note for each file that was left out."""
    texts, notes, _ = show_with_measures(results, form, experiment)
    return texts, notes


def show_with_measures(
    results: Path, form: str, experiment: str | None = None
) -> tuple[list[str], list[str], dict[str, set[str]]]:
    """Return what `show` does, and by which figures the runs of each experiment in the folder are compared."""
    notes: list[str] = []
    shelves = list_shelves(results, notes)
    cache = Cache(results)
    kept = cache.pages(form, shelves)
    pages = [page for of_folder in kept.values() for page in of_folder]
    if len(kept) < len(shelves):
        pages = _brought_up_to_date(results, shelves, cache, form, kept, notes)
    if experiment is not None:
        require_experiment(results, experiment, {page.key[0] for page in pages})
    elif not pages:
        notes.append(f"{results}: {NO_RUNS}")
    shown = sorted((page for page in pages if experiment in (None, page.key[0])), key=lambda page: page.key)
    measures: dict[str, set[str]] = defaultdict(set)
    for page in pages:
        measures[page.key[0]].add(page.key[4])
    return [page.text for page in shown], [one_line(note) for note in notes], measures


def require_experiment(results: Path, experiment: str, known: Iterable[str]) -> None:
    """Raise RequestError if there are no runs of an experiment."""
    if experiment not in known:
        msg = f"{results}: no runs of '{experiment}'{did_you_mean(experiment, sorted(known))}"
        raise RequestError(msg)


def _brought_up_to_date(
    results: Path, shelves: list[Shelf], cache: Cache, form: str, kept: dict[str, list[Page]], notes: list[str]
) -> list[Page]:
    """Make the pages of folders that have none, and again those of blocks whose runs lie in several folders."""
    from runner.report.blocks import blocks_of  # noqa: PLC0415 - none of it is needed if nothing has changed
    from runner.report.compare import block_key  # noqa: PLC0415
    from runner.report.formats import write  # noqa: PLC0415
    from runner.report.reading import Reading  # noqa: PLC0415

    reading = Reading(results, [shelf for shelf in shelves if shelf.name not in kept], cache)
    folders: dict[BlockKey, set[str]] = defaultdict(set)
    for name, of_folder in kept.items():
        for page in of_folder:
            folders[page.key].add(name)
    for run in reading.runs:
        folders[block_key(run)].add(run.path.rpartition("/")[0])
    shared = {name for names in folders.values() if len(names) > 1 for name in names}
    reading.read([shelf for shelf in shelves if shelf.name in shared & kept.keys()])
    made = [Page(block_key(block.first), write(form, block)) for block in blocks_of(results, reading.runs)]
    fresh: dict[str, list[Page]] = {name: [] for name in reading.settled - shared}
    for page in made:
        if fresh.keys() >= folders[page.key]:
            fresh[next(iter(folders[page.key]))].append(page)
    cache.keep(shelves, reading.fresh, form, [(shelf, fresh[shelf.name]) for shelf in shelves if shelf.name in fresh])
    notes += reading.all_notes()
    return [*made, *(page for name, of_folder in kept.items() if name not in shared for page in of_folder)]
