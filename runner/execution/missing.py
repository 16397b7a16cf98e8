"""`runner run X --missing`: only the repeats that a cell lacks, beside those that it has.

A repeat is there if a run of it has completed. Repeats are comparable only if they ran the same code with the same args
on the same machine: what can be known before is compared before anything is started, the data after the run.
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
"""One completed run of each cell that has one, by the name of the cell."""
_ONLY_AFTER = ("data", "machines")
"""Facts that only a completed run shows."""


def missing(plan: Plan, target: str, results: Path) -> tuple[Plan, There]:
    """Leave out the repeats that are there, and return a run of each cell that has any."""
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
    """Raise an error that names what differs between runs, planned or completed, and those that are there."""
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
