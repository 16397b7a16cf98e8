"""Results with all that a page can show, and one browser for all tests that look at a page."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from runner.core.layout import Layout
from runner.records.schema import NodeExit, Outcome
from tests.support import browser as browsers
from tests.support.browser import Browser
from tests.support.projects import MINIMAL
from tests.support.records import Make, event_lines

HOSTILE = '</title><script>window.stolen=1</script><img src=x onerror="window.stolen=1">$\\alpha$ {{7*7}}\x1b[2J\u202e'
"""A name that would run in a page, in a template, in matplotlib or on a terminal."""
FAILED = Outcome(ended="2026-11-21T00:01:00+00:00", wall_seconds=1.0, exits=[NodeExit(0, 1)])
SOURCE = {"source": "paper, the table", "rows": [{"layout": "1x2", "hardware": "2x A100", "total_seconds": 5.0}]}
one_a_second = partial(event_lines, first_ms=1_000_000, apart_ms=1_000)


def lines_of_epochs(
    rank: int, seconds: float, losses: list[float | None], accuracies: list[float | None], **facts: Any
) -> bytes:
    """What a rank prints that trains some epochs, with a phase before them and its load meanwhile."""
    start = {"host": "node-a", "device_name": "Toy CPU", "torch": "2.3.1", "machine_cores": 2, **facts}
    told = [
        ("run_start", None, start),
        ("global_batch_size", 8, {}),
        ("eval_samples", 1_000, {}),
        ("setup_stop", None, {"seconds": 0.5}),
    ]
    for epoch, (loss, accuracy) in enumerate(zip(losses, accuracies, strict=True), 1):
        work = {"epoch_num": epoch, "trained_samples": 100, "steps": 13}
        told += [
            ("load", None, {"cpu_percent": 40.0 + epoch, "own_cpu_percent": 40.0, "memory_bytes": 2_000_000_000}),
            ("epoch_stop", None, {**work, "train_seconds": seconds / len(losses), "loss": loss}),
            ("eval_accuracy", accuracy, {"epoch_num": epoch, "loss": loss}),
        ]
    stats = {"train_seconds": seconds, "final_accuracy": accuracies[-1], "eval_seconds": 0.25}
    told += [("tracked_stats", stats, {}), ("run_stop", None, {"status": "success"})]
    return one_a_second(rank, told)


def make_scaling(results: Path, make: Make, times: dict[str, list[float]], **changes: Any) -> None:
    """Make complete runs of some layouts, with curves, phases and load."""
    definition = changes.pop("definition", {**MINIMAL, "published": SOURCE})
    facts = changes.pop("facts", {})
    for layout, seconds in times.items():
        for number, time in enumerate(seconds, 1):
            printed = lines_of_epochs(0, time, [2.0, 1.0, 0.5, 0.25], [0.5, 0.7, 0.8, 0.9], **facts)
            ranks = range(Layout.parse(layout).world_size)
            stdout = {rank: printed.replace(b'"rank": 0', b'"rank": %d' % rank) for rank in ranks}
            make.run(results, time, stdout=stdout, layout=layout, repeat=number, definition=definition, **changes)


def make_messages(results: Path, make: Make, operation: str = "all_reduce") -> None:
    """Make a run that measured the bandwidth of two operations at some sizes."""
    told = [("run_start", None, {"host": "node-a", "device_name": "Toy CPU"})]
    for name in (operation, "broadcast"):
        for power in range(10, 25, 2):
            size, rate = 2**power, len(name) * power * 1e7
            told.append(("collective", name, {"bytes": size, "bus_bytes_per_second": rate}))
    stats = {"all_reduce_seconds": 0.02, **{f"{name}_bus_bytes_per_second": 8e8 for name in (operation, "broadcast")}}
    told += [("tracked_stats", stats, {}), ("run_stop", None, {"status": "success"})]
    make.run(results, stdout={0: one_a_second(0, told)}, experiment="moves", measure="all_reduce_seconds")


@pytest.fixture
def scaling(results: Path, make: Make) -> Path:
    """Three repeats with one process and with two, of which the speed-up may be claimed."""
    make_scaling(results, make, {"1x1": [10.0, 10.1, 9.9], "1x2": [6.0, 6.1, 5.9]})
    make_messages(results, make)
    return results


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with browsers.running() as started:
        yield started
