"""Records of runs that never happened, made as the runner makes them."""

import itertools
import json
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from runner.core.layout import Layout
from runner.records.folder import RunFolder, begin
from runner.records.parse import collect
from runner.records.schema import SCHEMA, Launch, NodeExit, Outcome
from tests.support.projects import MINIMAL

_NUMBERS = itertools.count(1)
_TURNS: dict[Path, Counter[str]] = defaultdict(Counter)
"""Number of runs of each cell below a folder."""


def make_launch(**changes: Any) -> Launch:
    number = next(_NUMBERS)
    values: dict[str, Any] = {
        "schema": SCHEMA,
        "id": f"20261121T{number // 100:04}{number % 100:02}Z-local-{number:08x}",
        "experiment": "tiny",
        "target": "local",
        "layout": "1x1",
        "axes": {},
        "repeat": 1,
        "repeats": 3,
        "program": "toys.ok",
        "args": {"epochs": 1, "seed": 1},
        "scaling": "strong",
        "measure": "train_seconds",
        "device": "cpu",
        "timeout_seconds": 60.0,
        "definition": {**MINIMAL, "published": None},
        "definition_sha256": "d" * 64,
        "argv": [["torchrun", "-m", "experiments.toys.ok"]],
        "started": f"2026-11-21T00:00:00.{number:03}+00:00",
        "runner": {"version": "0.1.0", "host": "here", "pid": 1, "pid_started": 0.0},
        "host": {"name": "here", "cpu": "Toy CPU", "cores": 2, "gpus": []},
        "code": {"sources_sha256": "c" * 64},
    }
    return Launch(**{**values, **changes})


def _in_turn(results: Path, launch: Launch) -> str:
    """Return the start of a run: the repeats of all cells alternate, whatever the order of the calls."""
    turns = _TURNS[results]
    cell = str((launch.layout, launch.axes, launch.program, launch.args, launch.experiment, launch.side))
    turns.setdefault(cell, 0)
    minutes = 100 * turns[cell] + list(turns).index(cell)
    turns[cell] += 1
    return (datetime.fromisoformat(launch.started) + timedelta(minutes=minutes)).isoformat(timespec="milliseconds")


def make_lines(rank: int, seconds: float, accuracy: float = 0.9, **start: Any) -> bytes:
    """Return the output of a rank of a well-behaved program."""
    facts = {
        "host": "here",
        "device_name": "Toy CPU",
        "torch": "2.3.1",
        "python": "3.11.7",
        "threads": 1,
        "nccl": None,
        "machine_cores": 2,
        **start,
    }
    quiet = {"cpu_percent": 50.0, "own_cpu_percent": 50.0}
    work = {"epoch_num": 1, "trained_samples": 100, "samples": 100, "steps": 13, "train_seconds": seconds}
    stats = {"train_seconds": seconds, "final_accuracy": accuracy, "best_accuracy": accuracy}
    told: list[tuple[str, Any, dict[str, Any]]] = [
        ("run_start", None, facts),
        ("global_batch_size", 8, {}),
        ("eval_samples", 1_000, {}),
        ("dataset", "toys", {"data_sha256": "e" * 64}),
        ("load", None, quiet),
        ("epoch_stop", None, work),
        ("eval_accuracy", accuracy, {"epoch_num": 1}),
        ("tracked_stats", stats, {}),
        ("run_stop", None, {"status": "success"}),
    ]
    return event_lines(rank, told)


def event_lines(
    rank: int, told: list[tuple[str, Any, dict[str, Any]]], *, first_ms: int = 1_000, apart_ms: int = 1
) -> bytes:
    """Return the event lines of a rank from key, value and fields of each."""
    events = (
        {
            "time_ms": first_ms + apart_ms * number,
            "key": key,
            "value": value,
            "metadata": {**fields, "rank": rank, "seq": number},
        }
        for number, (key, value, fields) in enumerate(told)
    )
    return b"".join(b"\n:::MLLOG " + json.dumps(event).encode() + b"\n" for event in events)


def make_run(
    results: Path,
    seconds: float = 10.0,
    *,
    stdout: dict[int, bytes] | None = None,
    outcome: Outcome | None = None,
    **changes: Any,
) -> RunFolder:
    """Make a run as the runner does: raw files, outcome, and the record that is parsed from them."""
    accuracy, start = changes.pop("accuracy", 0.9), changes.pop("start", {})
    launch = make_launch(**changes)
    if "started" not in changes:
        launch.started = _in_turn(results, launch)
    layout = Layout.parse(launch.layout)
    folder = begin(results, launch, "{}", "")
    for rank in range(layout.world_size):
        text = make_lines(rank, seconds, accuracy, **start) if stdout is None else stdout.get(rank, b"")
        (folder.raw / f"node{layout.node_of(rank)}-rank{rank}.stdout").write_bytes(text)
    exits = [NodeExit(node, 0) for node in range(layout.nodes)]
    outcome = outcome or Outcome(ended="2026-11-21T00:01:00+00:00", wall_seconds=seconds + 2, exits=exits)
    folder.keep_outcome(outcome)
    folder.finish(collect(folder, launch, outcome))
    return folder


class Make:
    """Makers of this file, for tests to call."""

    launch = staticmethod(make_launch)
    lines = staticmethod(make_lines)
    run = staticmethod(make_run)
