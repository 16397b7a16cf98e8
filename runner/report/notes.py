"""Block -> what a reader of its table has to know: the notes below it."""

from runner.core.layout import Layout
from runner.records.checked import Check
from runner.report.claims import KIND_UNKNOWN, taken_for_granted
from runner.report.machines import count_machines
from runner.report.published_rows import published_notes
from runner.report.rows import Block, Row, copies_note
from runner.report.statistics import MOST, POWER, SIGNIFICANT, more_for_width, repeats_to_find

PRECISION = 0.05
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
    found += [*_unobserved(block), *_checked(block)]
    found += [f"{row.first.cell}: {copies_note(row.copies)}" for row in block.rows if row.copies]
    if len(block.rows) > 1 and any(row.claimed == KIND_UNKNOWN for row in block.rows):
        found.append(SAY_SCALING)
    batches = {row.first.global_batch_size for row in block.rows}
    if any(row.scaling == "weak" for row in block.rows) and len(batches) > 1:
        found.append(_WEAK)
    tested = sum(row.adjusted_p is not None for row in block.rows)
    if tested > 1:  # the intervals beside them stand each for itself
        below = f"p < {SIGNIFICANT:.2g}"
        found.append(f"claims: {tested} rows are compared, so each has to hold after Holm's correction: {below}")
    widened = [(row.first.cell, row.difference.widened) for row in block.rows if row.difference]
    if each := "; ".join(f"{cell}: x {factor:.3g}" for cell, factor in widened if factor > 1):
        found.append(f"interval widened by the order of the runs: {each}")
    found += [*granted(block), *_more_repeats(block, tested)]
    if block.first.side:
        comparison, name, label = block.first.side
        found.append(f"runs of side {name} of the comparison {comparison}: {label}")
    found += [*_sources(block), *_bytes_moved(block), *_load(block)]
    if limits := [f"{row.first.cell}: {limit}" for row in block.rows if (limit := row.limit)]:
        found.append(f"what limits: {'; '.join(limits)}")
    return [*found, *_skipped(block), *published_notes(block)]


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
    if paced := [run for run in row.runs if run.repeat_with]:
        found.append(f"{name}: followed the clock; {paced[-1].repeat_with} repeats {paced[-1].path} bit for bit")
    if by_hand := sum(run.by_hand for run in row.runs):
        found.append(f"{name}: started by hand, so no runner supervised it: {by_hand} of {len(row.runs)} runs")
    if row.first.device == "cpu" and 0 < row.first.cores < row.first.processes:
        found.append(f"{name}: {row.first.processes} processes share {row.first.cores} cores")
    return found


def _unobserved(block: Block) -> list[str]:
    """Say why whole runs of a script are timed."""
    if block.first.measure != "wall_seconds":
        return []
    whys = {row.first.cell: next((run.unobserved for run in row.complete if run.unobserved), "") for row in block.rows}
    return [f"{cell}: samples are not counted, so whole runs are timed: {why}" for cell, why in whys.items() if why]


def _checked(block: Block) -> list[str]:
    """Say of each row with several processes whether `runner check` found that they train what one trains."""
    checks: dict[str, Check] = block.definition.get("checked", {})
    found = []
    for row in block.rows:
        check = checks.get(str(row.first.processes))
        if check is None or check.program != row.first.program:
            continue
        same = "; not compared: ".join(["same training", *filter(None, [", ".join(check.not_checked)])])
        said = {"same": same, "differs": f"another training than one process: {'; '.join(check.mistakes)}"}
        what = said.get(check.verdict, "whether it is the same training could not be seen")
        if check.sources_sha256 not in row.first.same["code"].split():
            what = f"{what}, but with other code than that of these runs"
        own = {**row.first.args, **row.first.axes}
        if others := [f"{key}={value}" for key, value in check.args.items() if key in own and own[key] != value]:
            what = f"{what}; it was checked with {' '.join(others)}"
        found.append(f"{row.first.cell}: checked: {what}")
    return found


def granted(block: Block) -> list[str]:
    """Name the claimed rows of which something is taken for granted, and those whose runs are on several machines."""
    found: dict[str, list[str]] = {}
    for row in block.rows:
        if row.claimed is True and row.baseline:
            runs = [*row.complete, *row.baseline.complete]
            said = taken_for_granted(runs)
            machines = count_machines(runs)
            if machines > max(Layout.parse(side.first.layout).nodes for side in (row, row.baseline)):
                said.append(f"made on {machines} machines of one kind, or starts of fewer, the baseline included")
            for what in said:
                found.setdefault(what, []).append(row.first.cell)
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
            narrower.append(f"{row.first.cell}: {_count(more)}")
        if is_open:
            needed = repeats_to_find(difference, abs(difference.log), tests=tests)
            there = min(count for _, count in difference.samples)
            clearer.append(f"{row.first.cell}: {_count(needed and max(1, needed - there))}")
    width = f"more repeats for +-{PRECISION:.0%}, of a cell and of its baseline"
    effect = f"more repeats to show a speed-up like the one seen, of both ({POWER:.0%} power)"
    return [f"{what}: {'; '.join(each)}" for what, each in ((width, narrower), (effect, clearer)) if each]


def _count(repeats: int | None) -> str:
    return f"over {MOST:,}" if repeats is None else f"{repeats:,}"


def _sources(block: Block) -> list[str]:
    """Return where the figures of a program are from that knows nothing of the kit, and what it does not count."""
    told = [(row.first.cell, row.sources) for row in block.rows if row.sources]
    found = []
    for figure in (block.first.measure, "final_accuracy"):
        places = dict.fromkeys(f"{sources[figure]} ({name})" for name, sources in told if figure in sources)
        everywhere = {sources.get(figure) for _, sources in told}
        if places:
            found.append(f"{figure} from {everywhere.pop() if len(everywhere) == 1 else ', '.join(places)}")
    if told and not all(run.trained_samples for row in block.rows for run in row.complete):
        declared = f": {block.first.scaling} scaling is what the definition declares" if block.first.scaling else ""
        found.append(f"the program's output does not count its work{declared}")
    return found


def _bytes_moved(block: Block) -> list[str]:
    """Return what a step moves where rows are compared that move it in different ways."""
    moved = [(row.first.cell, row.mean("bytes_moved")) for row in block.rows]
    amounts = {(row.first.layout, bytes_moved) for row, (_, bytes_moved) in zip(block.rows, moved, strict=True)}
    ways = len(amounts) > len({layout for layout, _ in amounts}) or "program" in block.first.axes
    if not ways or not any(bytes_moved for _, bytes_moved in moved):
        return []
    each = "; ".join(f"{name}: {bytes_moved:,.0f}" for name, bytes_moved in moved if bytes_moved is not None)
    return [f"bytes that a step moves between devices (each run's events say how they were counted): {each}"]


def _load(block: Block) -> list[str]:
    """Return how busy the nodes were, as they reported once a second."""
    words = {
        "cpu_percent": "CPU {:.0f}%",
        "gpu_percent": "GPU {:.0f}%",
        "memory_bytes": "memory {:.1f} GB",
        "gpu_memory_bytes": "GPU memory {:.1f} GB",
    }
    each = []
    for row in block.rows:
        figures = {name: value / 1e9 if name.endswith("bytes") else value for name, value in row.load.items()}
        if figures:
            said = ", ".join(text.format(figures[name]) for name, text in words.items() if name in figures)
            each.append(f"{row.first.cell}: {said}")
    return [f"load of a node while training, mean: {'; '.join(each)}"] if each else []


def _skipped(block: Block) -> list[str]:
    by_reason: dict[str, list[str]] = {}
    for skip in block.definition.get("skip", []):
        if skip.get("when") in (None, block.first.device):
            cells = ", ".join(f"{key} {value}" for key, value in skip.items() if key not in ("why", "when"))
            by_reason.setdefault(str(skip["why"]), []).append(cells)
    return [f"left out: {'; '.join(cells)}: {why}" for why, cells in by_reason.items()]
