"""Results folders -> the blocks that a page shows: those of the newest runs, as many as fit into it."""

from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import msgspec

from runner.report.compare import BlockKey, block_key
from runner.report.rows import Block
from runner.report.run_summary import RunSummary
from runner.report.summarize import NO_RUNS, blocks_of, read_results, require_experiment

MOST_BLOCKS = 30
MOST_RUNS = 3_000
"""Blocks and runs that are compared for a page; the others are counted."""
HERE = Path()


class Selection(NamedTuple):
    """What a page is made of; paths of runs are as they were given, and `left_out` are words on older blocks."""

    blocks: list[Block]
    left_out: list[str]
    runs: int
    notes: list[str]


def select(folders: list[Path], experiment: str | None = None) -> Selection:
    """Read results folders and compare the runs of the newest blocks; RequestError if a folder is not there."""
    runs, notes = _read(folders)
    if experiment is not None:
        require_experiment(folders[0], experiment, {run.experiment for run in runs})
        runs = [run for run in runs if run.experiment == experiment]
    elif not runs:
        notes.append(f"{', '.join(map(str, folders))}: {NO_RUNS}")
    groups: dict[BlockKey, list[RunSummary]] = defaultdict(list)
    for run in runs:
        groups[block_key(run)].append(run)
    newest = sorted(groups.items(), key=lambda group: (max(run.started for run in group[1]), group[0]), reverse=True)
    shown: list[RunSummary] = []
    left_out: dict[str, list[int]] = defaultdict(list)
    for place, (key, own) in enumerate(newest):
        if place < MOST_BLOCKS and (not shown or len(shown) + len(own) <= MOST_RUNS):
            shown += own
        else:
            left_out[key[0]].append(len(own))
    others = [f"{name}: {len(counts):,} tables, {sum(counts):,} runs" for name, counts in sorted(left_out.items())]
    return Selection(blocks_of(HERE, shown), others, len(runs), notes)


def _read(folders: list[Path]) -> tuple[list[RunSummary], list[str]]:
    """Read every run once, also if one folder lies in another or is a copy of it."""
    runs: dict[tuple[str, str], RunSummary] = {}
    notes: list[str] = []
    copies = 0
    for folder in folders:
        found, said = read_results(folder)
        notes += said
        for run in found:
            place = run.path if len(folders) == 1 else run.path.rpartition("/")[2]
            msgspec.structs.force_setattr(run, "path", str(folder / run.path))
            copies += runs.setdefault((run.experiment, place), run) is not run
    notes += [f"{copies:,} runs lie in more than one of the folders, and count once"] if copies else []
    return list(runs.values()), notes
