"""Select the repeats without a completed run, for `runner run X --missing`.

Repeats are comparable only with the same code, args, machines and data. The data and the machines of the ranks are
compared after the runs, everything else before the first start.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from runner.core.errors import RequestError, RunError
from runner.core.text import one_line
from runner.core.values import spell_non_finite
from runner.definitions.plan import Plan, cell_name
from runner.records.folder import RunFolder
from runner.records.listing import run_folders
from runner.records.record_facts import facts_here, machines_of
from runner.records.schema import Record

There = dict[str, Record]
"""One completed run for each cell that has any, by the cell's name."""
_ONLY_AFTER = ("data", "machines")
"""Facts that are unknown until a run has completed."""


def missing(plan: Plan, target: str, results: Path) -> tuple[Plan, There]:
    """Return the plan without the repeats that have a completed run, and one completed run of each cell."""
    first = plan.runs[0]
    there: There = {}
    done = []
    for entry in run_folders(results / first.experiment.name, []):
        record = RunFolder(Path(entry.path)).finished()
        if record is None or record.status != "completed" or record.launch.by_hand or record.launch.side:
            continue
        launch = record.launch
        if (launch.target, launch.device) == (target, first.device):
            cell = cell_name(launch.layout, launch.axes)
            there[cell] = record
            done.append((cell, launch.repeat, launch.args))
    left = []
    for run in plan.runs:
        cell = cell_name(str(run.cell.layout), spell_non_finite(run.cell.axes))
        if (cell, run.repeat, spell_non_finite(run.cell.args)) not in done:
            left.append(run)
    return replace(plan, runs=tuple(left)), there


def require_same(runs: Iterable[Record], there: There) -> None:
    """Compare runs with the earlier runs of their cells.

    Raises RequestError if a planned run differs, and RunError if a completed run differs.
    """
    for now in runs:
        cell = cell_name(now.launch.layout, now.launch.axes)
        if cell not in there or now.status not in ("running", "completed"):
            continue
        then, is_planned = there[cell], now.status == "running"
        facts = _facts(now)
        for what, before in _facts(then).items():
            if before != facts.get(what) and not (is_planned and what in _ONLY_AFTER):
                seen = f"{one_line(before, 80)} in run {then.launch.id}, now {one_line(facts.get(what), 80)}"
                kind = RequestError if is_planned else RunError
                raise kind(f"{cell}: {what}: {seen}: make all repeats again, without --missing")


def _facts(run: Record) -> dict[str, Any]:
    launch, image, host = run.launch, run.launch.image or {}, facts_here(run.launch)
    return {
        "commit": launch.code.get("commit"),
        "uncommitted changes": launch.code.get("diff_sha256"),
        f"code of {launch.program}": launch.code.get("sources_sha256"),
        "args": launch.args,
        "image": image.get("id") or image.get("digest") or image.get("name"),
        "options of the target": launch.options,
        "machine": host.get("machine") or host.get("name"),
        "data": run.facts.get("data_sha256"),
        "machines": machines_of(run).each,
    }
