"""Group runs into blocks and rows, and compare each row with its baseline."""

import shlex
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from runner.core.layout import Layout
from runner.core.values import by_value
from runner.records.schema import BETWEEN_NODES, OF_EACH_NODE
from runner.report.claims import OF_TRAINING, incomparable, not_shown, refusal
from runner.report.order import Series, in_order, options_of
from runner.report.rows import Block, CellRuns, Row, cell_runs, timed_alike
from runner.report.run_summary import UNKNOWN_HARDWARE, RunSummary
from runner.report.statistics import Estimate, holm, welch

_encoder = msgspec.json.Encoder(order="deterministic")


class BlockKey(NamedTuple):
    """The properties that all runs of a block share. Blocks are sorted by them, in this order."""

    experiment: str
    target: str
    hardware: str
    scaling: str
    measure: str
    args: bytes
    program: str
    side: tuple[str, ...]


def compare(
    runs: list[RunSummary], definition_of: Callable[[RunSummary], dict[str, Any]] = lambda _: {}
) -> list[Block]:
    """Group runs into blocks of rows, and compare each row with its baseline.

    `definition_of` returns the definition of a run. The definition of a block's newest run counts for the whole block.
    """
    alike: dict[BlockKey, list[RunSummary]] = defaultdict(list)
    for run in runs:
        alike[block_key(run)].append(run)
    groups: dict[BlockKey, dict[bytes, list[RunSummary]]] = defaultdict(lambda: defaultdict(list))
    for key, own in alike.items():
        for run in timed_alike(own):
            groups[key._replace(measure=run.measure)][key_of(_cell(run, {}))].append(run)
    for key in [key for key in groups if key.hardware == UNKNOWN_HARDWARE]:  # the runs failed before reporting hardware
        others = [other for other in groups if other != key and other == key._replace(hardware=other.hardware)]
        if len(others) == 1:
            for cell, of_cell in groups.pop(key).items():
                groups[others[0]][cell] += of_cell
    blocks = [{place: cell_runs(own) for place, own in cells.items()} for _, cells in sorted(groups.items())]
    everywhere = {
        (cell.first.experiment, place): cell
        for cells in reversed(blocks)
        for place, cell in cells.items()
        if cell.complete
    }
    return [_block(cells, definition_of, everywhere) for cells in blocks]


def block_key(run: RunSummary) -> BlockKey:
    """Return the key of a run's block. If the program is an axis of the experiment, the key has no program."""
    program = "" if "program" in run.axes else run.program
    place = (run.experiment, run.target, run.hardware)
    return BlockKey(*place, run.scaling or "", run.measure, key_of(run.args), program, run.side or ())


def _block(
    cells: dict[bytes, CellRuns],
    definition_of: Callable[[RunSummary], dict[str, Any]],
    everywhere: dict[tuple[str, bytes], CellRuns],
) -> Block:
    newest = max((run for cell in cells.values() for run in cell.runs), key=lambda run: (run.started, run.path))
    definition = definition_of(newest)
    # The baseline is the one-process cell with the same axes, or the cell that the definition declares.
    changes = {"layout": "1x1", **(definition.get("baseline") or {})}
    series = Series(run for cell in cells.values() for run in cell.runs)
    published = (definition.get("published") or {}).get("rows", [])
    rows = []
    for cell in sorted(cells.values(), key=_order):
        places = [_cell(cell.first, changes), _cell(cell.first, {})]
        base, elsewhere = cells.get(key_of(places[0])), everywhere.get((cell.first.experiment, key_of(places[0])))
        options = options_of(cell.first, places, max(len(side.complete) for side in (cell, base) if side), definition)
        scaling = "--scaling weak " if cell.first.scaling == "weak" else ""
        command = f"runner run {shlex.quote(cell.first.experiment)} {scaling}{options}"
        if cell.first.program.endswith(".py") or cell.first.by_hand:
            command = ""  # `runner run EXPERIMENT` may not have started these runs
        difference, why, speedup = None, None, None
        if base and base.first is cell.first and not incomparable(cell, base):
            speedup = cell.seconds and Estimate(1.0)
        elif base and base.seconds and cell.seconds and not incomparable(cell, base):
            by_spread = welch(_per_work(base, base), _per_work(cell, base))
            difference, why = in_order(by_spread, base, cell, series, command)
            speedup = difference.estimate()
        row = Row(
            **vars(cell),
            baseline=base,
            speedup=speedup,
            claimed=refusal(cell, base, elsewhere, command) or why or True,
            published=tuple(
                line for line in published if all(line.get(axis, at) == at for axis, at in places[1].items())
            ),
            difference=difference,
        )
        rows.append(row)
    return Block(tuple(with_claims(rows)), definition)


def with_claims(rows: list[Row]) -> list[Row]:
    """Decide the claims of the rows that were not refused. Holm's correction counts only these rows."""
    open_rows = ((place, row.difference) for place, row in enumerate(rows) if row.claimed is True)
    tested = {place: difference.p for place, difference in open_rows if difference and difference.p is not None}
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    found = [replace(row, adjusted_p=adjusted.get(place)) for place, row in enumerate(rows)]
    return [replace(row, claimed=not_shown(row) or True) if row.claimed is True else row for row in found]


def _per_work(cell: CellRuns, base: CellRuns) -> list[float]:
    """Return the times of a cell's runs, each divided by its work. The work of a baseline run counts as 1.

    Under strong scaling all work is equal, so the times do not change. Under weak scaling, the ratio of the divided
    times is the scaled speed-up. Work is counted in trained samples. If samples are not reported, every process of a
    weak run is assumed to do equal work. If the times measure anything but training, they are not divided.
    """
    runs = [*cell.complete, *base.complete]
    counted = all(run.trained_samples for run in runs)

    def work(run: RunSummary) -> int:
        if base.first.measure not in OF_TRAINING:
            return 1
        return run.trained_samples if counted else run.processes if run.scaling == "weak" else 1

    unit = work(base.complete[0])
    return [run.seconds * unit / work(run) for run in cell.complete if run.seconds]


def _order(cell: CellRuns) -> tuple[object, ...]:
    run = cell.first
    return (run.processes, Layout.parse(run.layout).nodes, run.layout, [str(value) for value in run.axes.values()])


def _cell(run: RunSummary, changes: dict[str, Any]) -> dict[str, Any]:
    """Apply changes to a run's layout and axes, and return the result.

    If the new layout has one node, drop the axes of the link between nodes, and shorten an axis with a value for each
    node to the first node's value.
    """
    cell, kinds = {**run.axes, "layout": run.layout, **changes}, run.option_axes
    if kinds and Layout.parse(cell["layout"]).nodes == 1:
        cell = {axis: value for axis, value in cell.items() if kinds.get(axis) != BETWEEN_NODES}
        cell |= {axis: str(cell[axis]).partition("+")[0] for axis, kind in kinds.items() if kind == OF_EACH_NODE}
    return cell


def key_of(value: object) -> bytes:
    """Encode a value as a key. Equal values, such as 1 and 1.0, have equal keys."""
    return _encoder.encode(by_value(value))
