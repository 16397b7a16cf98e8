"""What a check printed -> a row of the table and of the record."""

import json
import re
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.gpu_check.checks import Check
from trainkit.event_log import MARK

LAST = 12
"""Lines of a failed check that are shown."""
HEAD = ("check", "processes", "train s", "samples/s", "speed-up", "GPU GB", "GPU %", "result")


@dataclass
class Result:
    """A check that has ended; `failed` says why it did not do what it should, if so."""

    check: str
    program: str
    args: dict[str, Any]
    processes: int
    failed: str | None
    figures: dict[str, float] = field(default_factory=dict)
    wall_seconds: float = 0.0
    last_lines: list[str] = field(default_factory=list)


def read(check: Check, ended: int | str, out: bytes, err: bytes, wall_seconds: float) -> Result:
    """Read the events of all ranks; `ended` is an exit code, or why there is none."""
    text = out.decode(errors="replace")
    events = [event for line in text.split("\n") if line.startswith(MARK) for event in whole(line[len(MARK) :])]
    failed = verdict(check, ended, events)
    args = {key: str(value) if isinstance(value, Path) else value for key, value in check.args.items()}
    lines = [line for line in text.split("\n") if line and not line.startswith(MARK)] + own_lines(err)
    figures = measured(events)
    return Result(check.name, check.program, args, check.processes, failed, figures, wall_seconds, lines[-LAST:])


def whole(text: str) -> list[dict[str, Any]]:
    """Return an event in a list, or nothing of one that was cut off: its number will be missed."""
    try:
        return [json.loads(text)]
    except ValueError:
        return []


def own_lines(err: bytes) -> list[str]:
    """Return what the program itself wrote to stderr: torchrun's report of a failure comes after it, and is long."""
    lines = [line for line in err.decode(errors="replace").split("\n") if line]
    report = next(
        (
            number
            for number, line in enumerate(lines)
            if "torch/distributed/elastic" in line or "torch.distributed.elastic" in line
        ),
        None,
    )
    return lines[:report] or lines


def verdict(check: Check, ended: int | str, events: list[dict[str, Any]]) -> str | None:
    """Return what is wrong with a check: its end, a rank that is missing, an event that is lost, a wrong value."""
    if ended:
        return f"exit code {ended}" if isinstance(ended, int) else ended
    by_rank: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        by_rank[event["metadata"]["rank"]].append(event)
    if sorted(by_rank) != list(range(check.processes)):
        return f"events of the ranks {sorted(by_rank)} only"
    for rank, own in sorted(by_rank.items()):
        if [event["metadata"]["seq"] for event in own] != list(range(len(own))):
            return f"rank {rank} lost events"
        if own[-1]["key"] != "run_stop" or own[-1]["metadata"]["status"] != "success":
            return f"rank {rank} did not end well"
    losses = [event["metadata"].get("loss", 0.0) for event in events if event["key"] == "epoch_stop"]
    return "the loss is no number" if None in losses else None


def measured(events: list[dict[str, Any]]) -> dict[str, float]:
    """Merge what the ranks measured, the slowest's times and the largest's bytes, and the mean load of their GPUs."""
    figures: dict[str, float] = {}
    for event in reversed(events):
        if event["key"] == "tracked_stats":
            for key, value in event["value"].items():
                worst = key.endswith(("_seconds", "_bytes"))
                figures[key] = max(figures.get(key, value), value) if worst else value
    loads = [event["metadata"] for event in events if event["key"] == "load"]
    busy = [value for load in loads for key, value in load.items() if re.fullmatch(r"gpu\d+_percent", key)]
    if busy:
        figures["gpu_percent"] = sum(busy) / len(busy)
    return figures


def table(results: list[Result]) -> str:
    """Lay the results out for reading; a speed-up is that over one process of the same check."""
    alone = {result.check: result.figures.get("train_seconds") for result in results if result.processes == 1}
    lines = [HEAD, *(_line(result, alone.get(result.check)) for result in results)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    laid = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([laid[0], "-" * (sum(widths) + 2 * len(widths) - 2), *laid[1:], ""])


def _line(result: Result, alone: float | None) -> tuple[str, ...]:
    figures = result.figures
    seconds = figures.get("train_seconds")
    faster = alone / seconds if alone and seconds and result.processes > 1 else None
    return (
        result.check,
        str(result.processes),
        _number(seconds, "{:.2f}"),
        _number(figures.get("samples_per_second"), "{:,.0f}"),
        _number(faster, "{:.2f}"),
        _number(figures.get("device_peak_bytes"), "{:.2f}", 1e9),
        _number(figures.get("gpu_percent"), "{:.0f}"),
        f"failed: {result.failed}" if result.failed else _outcome(figures, result.processes),
    )


def _outcome(figures: dict[str, float], processes: int) -> str:
    if "final_accuracy" in figures:
        return f"accuracy {figures['final_accuracy']:.2%}"
    if "all_reduce_bus_bytes_per_second" in figures and processes > 1:  # one process sends nothing over a bus
        return f"all_reduce busbw {figures['all_reduce_bus_bytes_per_second'] / 1e9:.2f} GB/s"
    return _number(figures.get("final_loss"), "loss {:.4g}") or "done"


def _number(value: float | None, text: str, unit: float = 1.0) -> str:
    return "" if value is None else text.format(value / unit)


def write_record(folder: Path, surroundings: dict[str, Any], results: list[Result]) -> Path:
    """Keep the figures with hardware and versions; a later record of the same hardware and torch replaces it."""
    name = "-".join(dict.fromkeys(map(str, surroundings["devices"])))
    words = f"gpu-check {len(surroundings['devices'])}x {name} torch {surroundings['torch']}"
    path = folder / f"{re.sub(r'[^a-z0-9.]+', '-', words.lower()).strip('-')}.json"
    folder.mkdir(parents=True, exist_ok=True)
    record = {**surroundings, "checks": [asdict(result) for result in results]}
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return path
