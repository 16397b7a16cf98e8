"""Parse the raw files of a run into its record. Parsing can be repeated at any time."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from runner.core.errors import RequestError, reason_of
from runner.core.layout import Layout
from runner.core.text import listed, one_line
from runner.logs.mlperf import OBSERVED
from runner.records.events import read_events
from runner.records.first_failure import first_failure
from runner.records.folder import RawFiles, RunFolder, end_of
from runner.records.listing import RECORD
from runner.records.observed import take_observed
from runner.records.provenance import is_alive
from runner.records.record_facts import read_moment
from runner.records.run_events import RunEvents
from runner.records.schema import NO_OUTCOME, NO_TRAINING, Doubts, Launch, NodeExit, Outcome, Record
from runner.records.stdout_figures import place_of, take_printed

MOST_DOUBTS = 20
_LARGEST_NOTES = 10_000
_MOST_SAID = 3


def collect(folder: RunFolder, launch: Launch, outcome: Outcome | None) -> Record:
    """Parse a run's raw files into its record.

    `outcome` is None if the runner was killed. Broken files and events become doubts. Raises ValueError if the layout
    or a dialect is invalid.
    """
    doubts: Doubts = {}
    raw = folder.raw_files(Layout.parse(launch.layout))
    record = Record(launch=launch, status="running", outcome=outcome)
    malformed = _take_events(record, raw, doubts)
    record.metrics |= {"wall_seconds": outcome.wall_seconds} if outcome else {}
    record.events = {
        "seen": sum(rank.events_seen for rank in record.ranks),
        "expected": sum(rank.events_expected or 0 for rank in record.ranks),
        "malformed": malformed,
    }
    doubts |= dict.fromkeys(nan_since(record.epochs, record.evaluations))
    if launch.dialects or launch.metrics:
        take_printed(record, folder, raw, doubts)
    take_observed(record)
    record.failure = first_failure(raw, outcome, record.ranks)
    if outcome and not outcome.stopped_because and not record.failure:
        doubts |= dict.fromkeys(not_trained(raw, launch))
    folder.exits(raw, doubts)
    further = len(doubts) - MOST_DOUBTS
    record.doubts = [*doubts][:MOST_DOUBTS] + ([f"and {further:,} more"] if further > 0 else [])
    record.status, reason = _verdict(record, launch)
    record.reason = one_line(reason) if reason else None
    return record


def _take_events(record: Record, raw: RawFiles, doubts: Doubts) -> int:
    """Add the events to a record, and return the number of malformed event lines.

    If dialects read the program's output, only the events of trainkit/observer are added.
    """
    taken = RunEvents(record, raw.layout, doubts)
    only_observed = bool(record.launch.dialects)
    malformed, first = 0, ""
    for rank, path in raw.printed():
        try:
            with path.open("rb") as file:
                for events, broken in read_events(file):
                    for event in events:
                        if not only_observed or event.key == OBSERVED:
                            taken.take(event, rank)
                    if broken and not only_observed:
                        first = first or f"raw/{path.name}:{broken[0].line}: {broken[0].reason}: {broken[0].text}"
                        malformed += len(broken)
        except OSError as error:
            doubts[f"raw/{path.name}: left out: {error.strerror or error}"] = None
    if malformed:
        doubts[one_line(f"{malformed:,} malformed event lines, the first is {first}")] = None
    taken.finish()
    return malformed


def nan_since(epochs: list[dict[str, Any]], evaluations: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a doubt if a loss became NaN or infinite.

    The test loss counts only if the training loss is finite. JSON has neither NaN nor infinity: `loss` is then null,
    and `loss_hex` holds the value.
    """
    for what, rows in (("training", epochs), ("test", evaluations)):
        lost = [row for row in rows if "loss" in row and row["loss"] is None and "loss_hex" in row]
        if lost:
            name = "NaN" if lost[0]["loss_hex"] == "nan" else "infinite"
            since = "since" if rows[-1] is lost[-1] else "in"
            yield f"nan-loss: the {what} loss is {name} {since} epoch {lost[0].get('epoch_num')}"
            return


def not_trained(raw: RawFiles, launch: Launch) -> Iterator[str]:
    """Yield the reasons why a run with exit code 0 did not train in its layout.

    The reasons come from the notes of `runner/targets/hooks`. Processes may print losses even if each trains alone or
    none trains.
    """
    world = raw.layout.world_size
    paths = {rank: path for rank in range(world) if (path := raw.output(rank, "seen"))}
    notes = {rank: end_of(path, _LARGEST_NOTES).splitlines() for rank, path in paths.items()}
    all_notes = {line for lines in notes.values() for line in lines}
    if "spawned 0" in all_notes:
        yield f"{NO_TRAINING}torch.multiprocessing.spawn was called to start 0 processes"
    elif "optimizer" in all_notes and "gradient" not in all_notes:
        yield f"{NO_TRAINING}no gradient was computed; did it resume from the checkpoint of a finished training?"
    if launch.definition.get("launcher") == "python":  # the program chooses its number of processes
        return
    # Rank and size, as text, of each process group that a process joined.
    groups = {rank: [line.split()[1:] for line in lines if line.startswith("group ")] for rank, lines in notes.items()}
    sizes = {size for joined in groups.values() for _, size in joined}
    whole = {rank for joined in groups.values() for rank, size in joined if size == str(world)}
    alone = [rank for rank, joined in groups.items() if not any(size == str(world) for _, size in joined)]
    if world > 1 and alone:
        what = f"joined a group of {listed(sorted(sizes))}" if sizes else "joined no process group"
        yield f"{NO_TRAINING}rank {listed(alone)} of {world} {what}, so each process may have trained by itself"
    elif (world > 1 and len(notes) == world and len(whole) < world) or (world == 1 and sizes - {"1"}):
        yield f"{NO_TRAINING}it has {world} processes, but its process groups have a size of {listed(sorted(sizes))}"


def _verdict(record: Record, launch: Launch) -> tuple[str, str | None]:
    outcome = record.outcome
    if outcome is None:
        return NO_OUTCOME
    because, where = outcome.stopped_because, _where(outcome)
    if because == "interrupted":
        return because, f"stopped by Ctrl-C or a signal to the runner{where}"
    if because == "timed_out":
        limits = (ended.why for ended in outcome.exits if ended.stopped_because == because and ended.why)
        own = f"not done after timeout_seconds: {launch.timeout_seconds:g}{where}"
        return because, next(limits, own)
    if because == "hung":
        patience = "" if launch.patience_seconds is None else f" (patience_seconds: {launch.patience_seconds:g})"
        return "failed", f"no progress{patience}{where}"
    if because:
        return "failed", because
    return _failed(record, outcome.exits) or _told(record, launch) or ("completed", None)


def _where(outcome: Outcome) -> str:
    if stuck := outcome.stuck:
        why = f": {'; '.join(stuck.says[:_MOST_SAID])}" if stuck.says else ""
        return f"; no output for {stuck.quiet_seconds:.0f} s{why}"
    nodes: dict[str, list[int]] = defaultdict(list)
    for ended in outcome.exits:
        if ended.why:
            nodes[ended.why].append(ended.node)
    return "".join(f"; node {listed(numbers)}: {why}" for why, numbers in nodes.items())


def _failed(record: Record, exits: list[NodeExit]) -> tuple[str, str] | None:
    failure = record.failure
    gone = {ended.node: ended.why for ended in exits if ended.code is None and ended.signal is None}
    if gone and (not failure or failure.node in gone):
        whys = dict.fromkeys(why or "killed, removed, or never started" for why in gone.values())
        return "killed", f"node {listed(gone)} left no exit code: {'; '.join(whys)}"
    if failure is None:
        return None
    who = f"rank {failure.rank} (node {failure.node})" if failure.rank is not None else f"node {failure.node}"
    how = "failed" if failure.exit_code is None else f"exited with {failure.exit_code}"
    if failure.exit_code == 0:
        how += " while others still ran"
    if failure.signal:
        starved = any(ended.out_of_memory for ended in exits)
        how = f"was killed by {failure.signal}{': the container ran out of memory' * starved}"
    return "failed", f"{who} {how}" + "".join(f": {end.why}" for end in exits if end.node == failure.node and end.why)


def _told(record: Record, launch: Launch) -> tuple[str, str] | None:
    """Return the status and its reason from the events of the ranks, or from the log of a foreign program.

    Returns None if the run completed.
    """
    if launch.dialects:
        status = record.printed.get("status")
        if status and status["value"] == "failed":
            return "failed", f"exit code 0, yet {place_of(status)} reports a failure"
        return None
    if silent := [facts.rank for facts in record.ranks if facts.status is None]:
        why = f"exit code 0, yet no run_stop from rank {listed(silent)}"
        if not any(facts.events_seen for facts in record.ranks):
            why += "; if the program does not print the kit's events, name a dialect in its definition"
        return "incomplete", why
    if aborted := [facts.rank for facts in record.ranks if facts.status != "success"]:
        return "failed", f"rank {listed(aborted)} reports that it was aborted"
    missing, broken = record.events["expected"] - record.events["seen"], record.events["malformed"]
    if missing or broken:
        return "incomplete", f"{missing} of {record.events['expected']} events missing, {broken} malformed"
    return None


def finalize_ended(folder: RunFolder, exits: list[NodeExit] | None = None) -> Record:
    """Write and return the record of a run that was started by hand and has ended.

    If `exits` is given, the exit reports in the folder are not read.
    """
    folder.name_outputs()  # the record refers to files by their final names
    launch = folder.launch()
    layout = Layout.parse(launch.layout)
    raw = folder.raw_files(layout)
    by_node = {ended.node: ended for ended in exits} if exits else folder.exits(raw, {})
    exits = [by_node.get(node) or NodeExit(node) for node in range(layout.nodes)]
    began = read_moment(launch.started)
    ended = datetime.fromtimestamp(max(raw.last_written, began.timestamp()), timezone.utc)
    outcome = Outcome(
        ended=ended.isoformat(timespec="milliseconds"),
        wall_seconds=(ended - began).total_seconds(),
        exits=exits,
        stopped_because=next((node.stopped_because for node in exits if node.stopped_because), None),
    )
    record = collect(folder, launch, outcome)
    folder.keep_outcome(outcome)
    folder.finish(record)
    return record


def reparse(path: Path) -> Record:
    """Parse a run's raw files again and replace its record.

    Raises RequestError if the run may still be running, or if `path` is not the folder of a run.
    """
    try:
        return _reparse(RunFolder(path))
    except FileNotFoundError as error:
        raise RequestError(f"{path}: not the folder of a run: {error.filename} is missing") from None
    except (ValueError, OSError) as error:
        place = f"{Path(error.filename).name}: " if isinstance(error, OSError) and error.filename else ""
        raise RequestError(f"{path}: {place}{reason_of(error)}") from None


def _reparse(folder: RunFolder) -> Record:
    launch, outcome = folder.launch(), folder.outcome()
    if not folder.raw.is_dir():
        raise ValueError("its raw files are gone, so there is nothing to parse")
    if outcome is None and launch.by_hand:
        if folder.is_held():
            raise ValueError("it still runs")
        return finalize_ended(folder)
    if outcome is None and is_alive(launch.runner) is not False:
        raise ValueError(f"its runner still lives, or is on another machine ({launch.runner.get('host')})")
    record = collect(folder, launch, outcome)
    folder.replace(record)
    folder.reseal(RECORD, "run.json was written again by runner collect, from the raw files")
    return record
