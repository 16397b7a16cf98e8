"""Block -> what a reader of its table has to know: the notes below it."""

from collections import defaultdict
from typing import Any

from runner.core.layout import Layout
from runner.records.checked import Check
from runner.report.claims import KIND_UNKNOWN, count_machines, taken_for_granted
from runner.report.rows import Block, Row, copies_note
from runner.report.statistics import MOST, POWER, SIGNIFICANT, more_for_width, repeats_to_find

PRECISION = 0.05
PUBLISHED_TIMES = ("total_seconds", "train_seconds", "round_trip_seconds")
_WEAK = (
    "weak scaling: the batch per process is fixed, so the global batch grows with the processes; the speed-up"
    " compares samples per second, not the same optimisation"
)


SAY_SCALING = (
    "the kind of scaling is not known, so there is no speed-up: say runner run --scaling strong, or scaling: strong in"
    " the definition, if all layouts do the same work, and weak if each process does as much as one alone"
)


def notes(block: Block) -> list[str]:
    """Return the notes of a block, those about single rows first."""
    found = [note for row in block.rows for note in _of_row(row)]
    if block.first.measure == "wall_seconds":
        whys = ((row.first.cell, next((run.unobserved for run in row.complete), "")) for row in block.rows)
        found += [f"{cell}: samples are not counted, so whole runs are timed: {why}" for cell, why in whys if why]
    found += _checked(block)
    found += [f"{row.first.cell}: {copies_note(row.copies)}" for row in block.rows if row.copies]
    if len(block.rows) > 1 and any(row.claimed == KIND_UNKNOWN for row in block.rows):
        found.append(SAY_SCALING)
    batches = {row.first.global_batch_size for row in block.rows}
    if len(batches) > 1 and any(row.scaling == "weak" for row in block.rows):
        found.append(_WEAK)
    tested = sum(row.adjusted_p is not None for row in block.rows)
    if tested > 1:  # the intervals beside them stand each for itself
        below = f"p < {SIGNIFICANT:.2g}"
        found.append(f"claims: {tested} rows are compared, so each has to hold after Holm's correction: {below}")
    widths = [(row.first.cell, row.difference.widened) for row in block.rows if row.difference]
    widened = [(cell, f"x {by:.3g}") for cell, by in widths if by > 1]
    found += _each("interval widened by the order of the runs", widened)
    found += [*_granted(block), *_more_repeats(block, tested)]
    if block.first.side:
        comparison, name, label = block.first.side
        found.append(f"runs of side {name} of the comparison {comparison}: {label}")
    found += _sources(block)
    if block.axes:  # ways of exchanging are compared
        moved = ((row.first.cell, row.mean("bytes_moved")) for row in block.rows)
        found += _each("bytes that a step moves between devices", [(cell, f"{by:,.0f}") for cell, by in moved if by])
    found += _load(block)
    found += _each("what limits", [(row.first.cell, row.limit) for row in block.rows if row.limit])
    return [*found, *_skipped(block), *_published(block)]


def _each(what: str, of_cells: list[tuple[str, str]]) -> list[str]:
    """Return one note with what is said of each cell; none if nothing is."""
    return [f"{what}: {'; '.join(f'{cell}: {said}' for cell, said in of_cells)}"] if of_cells else []


def _of_row(row: Row) -> list[str]:
    """Return which runs of a row are not complete, doubtful or disturbed, or had no supervisor or too few cores."""
    found = []
    name = row.first.cell
    for run in row.runs:
        if run.status != "completed":
            found.append(f"{name}: {run.status.replace('_', ' ')}: {run.reason or 'no reason known'} ({run.path})")
        elif not run.seconds:
            why = f": {run.unobserved}" if run.unobserved else ""
            found.append(f"{name}: completed without {run.measure}{why} ({run.path})")
        if run.doubts:
            found.append(f"{name}: doubtful: {'; '.join(run.doubts)} ({run.path})")
        if run.disturbed:
            found.append(f"{name}: disturbed: {'; '.join(run.disturbed)} ({run.path})")
    if slowed := [run for run in row.runs if run.slowed]:
        last = slowed[-1]
        of_runs = f" in {len(slowed)} of {len(row.runs)} runs" if len(row.runs) > 1 else ""
        found.append(f"{name}: slowed{of_runs} by {'; '.join(last.slowed)} (runner explain {last.path})")
    if any(run.followed_clock for run in row.runs):
        found.append(f"{name}: followed the clock, so another run computes other numbers")
    if by_hand := sum(run.by_hand for run in row.runs):
        found.append(f"{name}: started by hand, so no runner supervised it: {by_hand} of {len(row.runs)} runs")
    if row.first.device == "cpu" and 0 < row.first.cores < row.first.processes:
        found.append(f"{name}: {row.first.processes} processes share {row.first.cores} cores")
    return found


def _checked(block: Block) -> list[str]:
    """Say of each row with several processes whether `runner check` found that they train what one trains."""
    checks: dict[str, Check] = block.definition.get("checked", {})
    found = []
    for row in block.rows:
        check = checks.get(str(row.first.processes))
        if check is None or check.program != row.first.program:
            continue
        what = "whether it is the same training could not be seen"
        if check.verdict == "same":
            what = "same training" + "; not compared: " * bool(check.not_checked) + ", ".join(check.not_checked)
        elif check.verdict == "differs":
            what = f"another training than one process: {'; '.join(check.mistakes)}"
        own = {**row.first.args, **row.first.axes}
        same_args = all(own.get(key, value) == value for key, value in check.args.items())
        if check.sources_sha256 not in row.first.same["code"].split() or not same_args:
            what = f"{what}, but with other code or arguments than those of these runs"
        found.append(f"{row.first.cell}: checked: {what}")
    return found


def _granted(block: Block) -> list[str]:
    """Name the claimed rows of which something is taken for granted, and those whose runs are on several machines."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in block.rows:
        if row.claimed is True and row.baseline:
            runs = [*row.complete, *row.baseline.complete]
            said = taken_for_granted(runs)
            machines = count_machines(runs)
            if machines > max(Layout.parse(side.first.layout).nodes for side in (row, row.baseline)):
                said.append(f"made on {machines} machines of one kind, or starts of fewer, the baseline included")
            for what in said:
                found[what].append(row.first.cell)
    return [f"{what}: {'; '.join(cells)}" for what, cells in found.items()]


def _more_repeats(block: Block, tested: int) -> list[str]:
    """Return how many more repeats would narrow a wide interval, or show the difference that was seen."""
    narrower, clearer = [], []
    for row in block.rows:
        difference = row.difference
        if difference is None or difference.error is None:
            continue
        is_open = row.adjusted_p is not None and row.claimed is not True
        # What is not claimed yet has to hold among all rows that are tested.
        tests = tested if is_open else 1
        if (more := more_for_width(difference, PRECISION, tests)) != 0:
            narrower.append((row.first.cell, _count(more)))
        if is_open:
            needed = repeats_to_find(difference, abs(difference.log), tests=tests)
            there = min(count for _, count in difference.samples)
            clearer.append((row.first.cell, _count(needed and max(1, needed - there))))
    return [
        *_each(f"more repeats for +-{PRECISION:.0%}, of a cell and of its baseline", narrower),
        *_each(f"more repeats to show a speed-up like the one seen, of both ({POWER:.0%} power)", clearer),
    ]


def _count(repeats: int | None) -> str:
    return f"over {MOST:,}" if repeats is None else f"{repeats:,}"


def _sources(block: Block) -> list[str]:
    """Return where the figures of a program are from that knows nothing of the kit, and what it does not count."""
    told = [(row.first.cell, row.sources) for row in block.rows if row.sources]
    found = []
    for name in (block.first.measure, "final_accuracy"):
        places = {cell: sources[name] for cell, sources in told if name in sources}
        if len(places) == len(told) and len(set(places.values())) == 1:
            found.append(f"{name} from {places.popitem()[1]}")
        elif places:
            found.append(f"{name} from {', '.join(f'{place} ({cell})' for cell, place in places.items())}")
    if told and not all(run.trained_samples for row in block.rows for run in row.complete):
        declared = f": {block.first.scaling} scaling is what the definition declares" if block.first.scaling else ""
        found.append(f"the program's output does not count its work{declared}")
    return found


def _load(block: Block) -> list[str]:
    """Return how busy the nodes were, as they reported once a second."""
    figures = {
        "cpu_percent": ("CPU {:.0f}%", 1),
        "gpu_percent": ("GPU {:.0f}%", 1),
        "memory_bytes": ("memory {:.1f} GB", 1e9),
        "gpu_memory_bytes": ("GPU memory {:.1f} GB", 1e9),
    }
    each = []
    for row in block.rows:
        load = row.load
        if said := [text.format(load[name] / unit) for name, (text, unit) in figures.items() if name in load]:
            each.append((row.first.cell, ", ".join(said)))
    return _each("load of a node while training, mean", each)


def _skipped(block: Block) -> list[str]:
    by_reason: dict[str, list[str]] = defaultdict(list)
    for skip in block.definition.get("skip", []):
        if skip.get("when") in (None, block.first.device):
            cell = (f"{key} {value}" for key, value in skip.items() if key not in ("why", "when"))
            by_reason[skip["why"]].append(", ".join(cell))
    return [f"left out: {'; '.join(cells)}: {why}" for why, cells in by_reason.items()]


def _published(block: Block) -> list[str]:
    """Return what the definition says of single published rows."""
    found = []
    for row in (block.definition.get("published") or {}).get("rows", []):
        if said := [row[key] for key in ("where", "note") if row.get(key)]:
            time = published_time(row, block.first.measure)
            cell = " ".join(str(row[axis]) for axis in ("layout", *block.first.axes) if axis in row)
            figure = [f"{row[time]:g} s"] if time else []
            found.append(f"published: {', '.join([cell, row['hardware'], *figure])}: {'; '.join(said)}")
    return found


def published_time(row: dict[str, Any], measure: str) -> str:
    """Name the time that a published row shows: the one that is compared, else another."""
    return next((key for key in (measure, *PUBLISHED_TIMES) if key in PUBLISHED_TIMES and row.get(key)), "")
