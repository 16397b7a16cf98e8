"""Write the notes below the table of a block."""

from collections import defaultdict
from collections.abc import Callable
from functools import partial

from runner.core.layout import Layout
from runner.definitions.environment import variables_of
from runner.records.checked import Check
from runner.report.claims import KIND_UNKNOWN, count_machines, taken_for_granted
from runner.report.rows import Block, Row, copies_note, ending
from runner.report.statistics import MOST, POWER, SIGNIFICANT, more_for_width, repeats_to_find

PRECISION = 0.05
PUBLISHED_TIMES = ("total_seconds", "train_seconds", "round_trip_seconds")
_WEAK = (
    "weak scaling: the batch per process is fixed, so the global batch grows with the processes; the speed-up"
    " compares samples per second, not the same optimisation"
)


SAY_SCALING = (
    "the kind of scaling is unknown, so there is no speed-up: pass --scaling strong to runner run (or set scaling:"
    " strong in the definition) if all layouts do the same work, weak if each process does as much as one alone"
)


def notes(block: Block) -> list[str]:
    """Return the notes of a block. Notes about single rows come first."""
    first, each = block.first, partial(_each, block)
    found = [note for row in block.rows for note in _of_row(row)]
    if first.measure == "wall_seconds":
        whys = ((row.first.cell, next((run.unobserved for run in row.complete), "")) for row in block.rows)
        found += [f"{cell}: samples could not be counted, so whole runs are timed: {why}" for cell, why in whys if why]
    found += _checked(block)
    found += [f"{row.first.cell}: {copies_note(row.copies)}" for row in block.rows if row.copies]
    if len(block.rows) > 1 and any(row.claimed == KIND_UNKNOWN for row in block.rows):
        found.append(SAY_SCALING)
    if len({row.first.global_batch_size for row in block.rows}) > 1 and any(
        row.scaling == "weak" for row in block.rows
    ):
        found.append(_WEAK)
    tested = sum(row.adjusted_p is not None for row in block.rows)
    if tested > 1:
        below = f"p < {SIGNIFICANT:.2g}"
        found.append(f"claims: {tested} rows are compared, so each claim needs {below} after Holm's correction")
    found += each("interval widened by the order of the runs", _widened)
    found += _granted(block)
    both = "of a cell and its baseline"
    found += each(f"more repeats {both} for an interval of +-{PRECISION:.0%}", partial(_for_width, tested))
    power = f"{POWER:.0%} power"
    found += each(f"more repeats {both} to show the observed speed-up ({power})", partial(_to_show, tested))
    if first.side:
        comparison, name, label = first.side
        found.append(f"runs of side {name} of the comparison {comparison}: {label}")
    found += _sources(block)
    if block.axes:  # for example ways of exchanging gradients
        found += each("bytes moved between devices per step", _moved)
    found += each("mean load of a node while training", _load)
    found += each("limited by", lambda row: row.limit)
    return [*found, *_skipped(block), *_published(block)]


def _each(block: Block, what: str, of_row: Callable[[Row], str]) -> list[str]:
    each = [f"{row.first.cell}: {words}" for row in block.rows if (words := of_row(row))]
    return [f"{what}: {'; '.join(each)}"] if each else []


def _of_row(row: Row) -> list[str]:
    found, name = [], row.first.cell
    for run in row.runs:
        if run.status != "completed":
            found.append(f"{name}: {ending(run)}")
        elif not run.seconds:
            why = f": {run.unobserved}" if run.unobserved else ""
            found.append(f"{name}: completed without {run.measure}{why} ({run.path})")
        for what, words in (("doubtful", run.doubts), ("disturbed", run.disturbed)):
            found += [f"{name}: {what}: {'; '.join(words)} ({run.path})"] if words else []
    if slowed := [run for run in row.runs if run.slowed]:
        last = slowed[-1]
        of_runs = f" in {len(slowed)} of {len(row.runs)} runs" if len(row.runs) > 1 else ""
        found.append(f"{name}: slowed{of_runs} by {'; '.join(last.slowed)} (runner explain {last.path})")
    if any(run.followed_clock for run in row.runs):
        found.append(f"{name}: followed the clock, so another run computes different numbers")
    if by_hand := sum(run.by_hand for run in row.runs):
        found.append(f"{name}: started by hand, without a runner to supervise it: {by_hand} of {len(row.runs)} runs")
    if row.first.device == "cpu" and 0 < row.first.cores < row.first.processes:
        found.append(f"{name}: {row.first.processes} processes share {row.first.cores} cores")
    return found


def _checked(block: Block) -> list[str]:
    checks: dict[str, Check] = block.definition.get("checked", {})
    found = []
    for row in block.rows:
        check = checks.get(str(row.first.processes))
        if check is None or check.program != row.first.program:
            continue
        what = "unknown whether the training is the same as with one process"
        if check.verdict == "same":
            what = "same training" + "; not compared: " * bool(check.not_checked) + ", ".join(check.not_checked)
        elif check.verdict == "differs":
            what = f"trains differently from one process: {'; '.join(check.mistakes)}"
        own = {**row.first.args, **row.first.axes}
        same_args = all(own.get(key, value) == value for key, value in check.args.items())
        same_args = same_args and variables_of(own) == variables_of(check.args)
        if check.sources_sha256 not in row.first.same["code"].split() or not same_args:
            what = f"{what}, but for other code or arguments than in these runs"
        found.append(f"{row.first.cell}: checked: {what}")
    return found


def _granted(block: Block) -> list[str]:
    found: dict[str, list[str]] = defaultdict(list)
    for row in block.rows:
        if row.claimed is True and row.baseline:
            runs = [*row.complete, *row.baseline.complete]
            said = taken_for_granted(runs)
            machines = count_machines(runs)
            if machines > max(Layout.parse(side.first.layout).nodes for side in (row, row.baseline)):
                said.append(f"made on {machines} machines of one kind (or fewer, if rebooted), including the baseline")
            for what in said:
                found[what].append(row.first.cell)
    return [f"{what}: {'; '.join(cells)}" for what, cells in found.items()]


def _widened(row: Row) -> str:
    return f"x {row.difference.widened:.3g}" if row.difference and row.difference.widened > 1 else ""


def _moved(row: Row) -> str:
    return f"{moved:,.0f}" if (moved := row.mean("bytes_moved")) else ""


def _is_open(row: Row) -> bool:
    return row.adjusted_p is not None and row.claimed is not True


def _for_width(tested: int, row: Row) -> str:
    if row.difference is None or row.difference.error is None:
        return ""
    more = more_for_width(row.difference, PRECISION, tested if _is_open(row) else 1)
    return "" if more == 0 else _count(more)


def _to_show(tested: int, row: Row) -> str:
    if row.difference is None or not _is_open(row):
        return ""
    needed = repeats_to_find(row.difference, abs(row.difference.log), tests=tested)
    return _count(needed and max(1, needed - min(count for _, count in row.difference.samples)))


def _count(repeats: int | None) -> str:
    return f"over {MOST:,}" if repeats is None else f"{repeats:,}"


def _sources(block: Block) -> list[str]:
    """Return notes on a program without the kit. They say where its figures were read, and if its work is uncounted."""
    told = [(row.first.cell, row.sources) for row in block.rows if row.sources]
    found = []
    for name in (block.first.measure, "final_accuracy"):
        places = {cell: sources[name] for cell, sources in told if name in sources}
        if len(places) == len(told) and len(set(places.values())) == 1:
            found.append(f"{name} from {places.popitem()[1]}")
        elif places:
            found.append(f"{name} from {', '.join(f'{place} ({cell})' for cell, place in places.items())}")
    if told and not all(run.trained_samples for row in block.rows for run in row.complete):
        declared = f"; {block.first.scaling} scaling is declared by the definition" if block.first.scaling else ""
        found.append(f"the program's output does not count its work{declared}")
    return found


LOAD = {
    "cpu_percent": ("CPU {:.0f}%", 1),
    "gpu_percent": ("GPU {:.0f}%", 1),
    "memory_bytes": ("memory {:.1f} GB", 1e9),
    "gpu_memory_bytes": ("GPU memory {:.1f} GB", 1e9),
}


def _load(row: Row) -> str:
    load = row.load
    return ", ".join(text.format(load[name] / unit) for name, (text, unit) in LOAD.items() if name in load)


def _skipped(block: Block) -> list[str]:
    by_reason: dict[str, list[str]] = defaultdict(list)
    for skip in block.definition.get("skip", []):
        if skip.get("when") in (None, block.first.device):
            cell = (f"{key} {value}" for key, value in skip.items() if key not in ("why", "when"))
            by_reason[skip["why"]].append(", ".join(cell))
    return [f"left out: {'; '.join(cells)}: {why}" for why, cells in by_reason.items()]


def _published(block: Block) -> list[str]:
    found = []
    for row in (block.definition.get("published") or {}).get("rows", []):
        if said := [row[key] for key in ("where", "note") if row.get(key)]:
            cell = " ".join(str(row[axis]) for axis in ("layout", *block.first.axes) if axis in row)
            times = [f"{row[name]:g} s" for name in PUBLISHED_TIMES if row.get(name)]
            found.append(f"published: {', '.join([cell, row['hardware'], *times])}: {'; '.join(said)}")
    return found
