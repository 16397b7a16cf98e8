"""Records of a network and of trainings whose speed follows from it: what a prediction is tried on."""

from pathlib import Path
from typing import Any

from runner.core.layout import Layout
from runner.records.folder import RunFolder
from tests.support.records import event_lines, make_run

STEP_SECONDS, GRADIENTS, BATCH, STEPS = 0.1, 10_000_000, 100, 20
PROFILE: dict[str, Any] = {
    "seconds": STEP_SECONDS,
    "samples": BATCH,
    "half_seconds": STEP_SECONDS * 0.55,
    "half_samples": BATCH // 2,
    "forward_share": 0.3,
    "backward_share": 0.6,
    "ddp": True,
    "broadcast_bytes": 0,
    "gradient_tensors": 8,
    "gradient_bytes": GRADIENTS,
    "element_bytes": 4,
    "matrices": [[1000, 2500, 1]],
    "buckets": [[2_000_000, 0.5, 1], [8_000_000, 1.0, 1]],
}
"""A step of which a tenth does not shrink with the batch."""


def lines(rank: int, told: list[tuple[str, Any, dict[str, Any]]], **facts: Any) -> bytes:
    """What a rank prints: its start, these events, and its end."""
    start = {"host": "here", "device_name": "Toy CPU", "torch": "2.3.1", "threads": 1, "machine": "m", **facts}
    return event_lines(rank, [("run_start", None, start), *told, ("run_stop", None, {"status": "success"})])


def train(
    results: Path,
    layout: str = "1x1",
    step_seconds: float = STEP_SECONDS,
    profile: Any = PROFILE,
    moved: float | None = None,
    **changes: Any,
) -> RunFolder:
    """Keep a training of some steps; one process reports its step."""
    ranks, seconds = Layout.parse(layout).world_size, step_seconds * STEPS
    row = {"epoch_num": 1, "trained_samples": BATCH * STEPS, "steps": STEPS, "train_seconds": seconds}
    told: list[tuple[str, Any, dict[str, Any]]] = [("global_batch_size", BATCH, {})]
    if ranks == 1 and profile is not None:
        told.append(("step_profile", profile, {}))
    stats = {"train_seconds": seconds, **({} if moved is None else {"bytes_moved_per_step": moved})}
    told += [("epoch_stop", None, row), ("tracked_stats", stats, {})]
    return make_run(
        results, seconds, layout=layout, stdout={rank: lines(rank, told) for rank in range(ranks)}, **changes
    )


def measure_network(results: Path, layout: str = "1x2", bandwidth: float = 1e8, **changes: Any) -> RunFolder:
    """Keep a run that measured a network of so many bytes per second, whose sums are those of a ring."""
    ranks = Layout.parse(layout).world_size
    stats = {"round_trip_seconds": 2e-4, "latency_seconds": 1e-4, "bytes_per_second": bandwidth}
    stats |= {"compute_slowdown": 1.02, "memory_slowdown": 1.06, "node_slowdown": 1.0, "waiting_share": 0.02}
    for size in (4096, 1_000_000, 16_000_000):
        stats[f"all_reduce_{size}_seconds"] = 1e-4 + 2 * (ranks - 1) / ranks * size / bandwidth
        stats[f"all_reduce_{size}_processor_seconds"] = size / 2e9
    told: list[tuple[str, Any, dict[str, Any]]] = [("tracked_stats", stats, {})]
    values = {"experiment": "links", "measure": "round_trip_seconds", "program": "links.measure", "args": {}, **changes}
    stdout = {rank: lines(rank, told, machine=f"m{Layout.parse(layout).node_of(rank)}") for rank in range(ranks)}
    return make_run(results, 1.0, layout=layout, stdout=stdout, **values)
