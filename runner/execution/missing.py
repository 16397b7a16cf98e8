"""`runner run X --missing`: only the repeats that a cell lacks, beside those that it has.

A repeat is there if a run of it has completed. Repeats are comparable only if they ran the same code with the same args
on the same machine: what can be known before is compared before anything is started, the data after the run.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from runner.core.errors import RequestError, RunError
from runner.core.text import one_line
from runner.core.values import spell_non_finite
from runner.definitions.plan import Plan, Run, cell_name
from runner.records.folder import RunFolder
from runner.records.listing import run_folders
from runner.records.machine_facts import facts_here, machines_of
from runner.records.schema import Launch, Record

There = dict[str, Record]
"""One completed run of each cell that has one, by the name of the cell."""


def missing(plan: Plan, target: str, results: Path) -> tuple[Plan, There]:
    """Leave out the repeats that are there, and return a run of each cell that has any."""
    experiment, device = plan.runs[0].experiment.name, plan.runs[0].device
    there: There = {}
    done = set()
    for entry in run_folders(results / experiment, []):
        record = RunFolder(Path(entry.path)).finished()
        if record is None or record.status != "completed":
            continue
        launch = record.launch
        if (launch.experiment, launch.target, launch.device) != (experiment, target, device):
            continue
        if launch.by_hand or launch.side:
            continue
        cell = cell_name(launch.layout, launch.axes)
        there[cell] = record
        done.add((cell, launch.repeat, msgspec.json.encode(launch.args)))
    return replace(plan, runs=tuple(run for run in plan.runs if _repeat(run) not in done)), there


def _repeat(run: Run) -> tuple[str, int, bytes]:
    axes, args = spell_non_finite(run.cell.axes), spell_non_finite(run.cell.args)
    return cell_name(str(run.cell.layout), axes), run.repeat, msgspec.json.encode(args)


def require_same(launches: Iterable[Launch], there: There) -> None:
    """Raise RequestError that names what differs between the runs to be started and those that are there."""
    for now in launches:
        name = cell_name(now.layout, now.axes)
        if name in there:
            then = there[name].launch
            _compare(name, there[name], _before(then), _before(now), RequestError)


def require_same_inputs(records: Iterable[Record], there: There) -> None:
    """Raise RunError that names what differs between completed runs and those that were there."""
    for record in records:
        name = cell_name(record.launch.layout, record.launch.axes)
        if name in there and record.status == "completed":
            _compare(name, there[name], _after(there[name]), _after(record), RunError)


def _before(launch: Launch) -> dict[str, Any]:
    image, host = launch.image or {}, facts_here(launch)
    return {
        "commit": launch.code.get("commit"),
        "uncommitted changes": launch.code.get("diff_sha256"),
        f"code of {launch.program}": launch.code.get("sources_sha256"),
        "args": launch.args,
        "image": image.get("id") or image.get("digest") or image.get("name"),
        "options of the target": launch.options,
        "machine": host.get("machine") or host.get("name"),
    }


def _after(record: Record) -> dict[str, Any]:
    return {"data": record.facts.get("data_sha256"), "machines": machines_of(record).each}


def _compare(
    cell: str, run: Record, then: dict[str, Any], now: dict[str, Any], error: type[RequestError | RunError]
) -> None:
    for what in {**then, **now}:
        before, after = (msgspec.json.encode(facts.get(what)).decode() for facts in (then, now))
        if before != after:
            seen = f"{cell}: {what}: {one_line(before, 80)} in run {run.launch.id}, now {one_line(after, 80)}"
            raise error(f"{seen}: make all repeats again, without --missing")
