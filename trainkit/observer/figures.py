"""The figures of an `observed` line; unknown ones are null."""

from __future__ import annotations

import resource
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .process import Process

_OF_LOADERS = ("batches", "passes", "samples_per_pass")
_NULL_TOO = {"samples_from": "samples", "samples_after_warmup": "samples"}
_NULL_TOO["collective_seconds_after_warmup"] = "collective_seconds"


def figures(seen: Process) -> dict[str, Any]:
    """Return all figures in SI units; unknown figures are null, with their reason in `unknown`."""
    if seen.is_broken:
        return {"unknown": {"all": seen.is_broken}}
    unknown = dict(seen.unknown)
    model, loaders, optimizers = seen.model, seen.loaders.totals(unknown), list(seen.optimizers.values())
    fused = 0 if seen.infinite is None else int(seen.infinite.item())
    in_turn = sum(steps for steps, _, _ in optimizers)  # each optimizer has its own batches
    is_in_turn = len(optimizers) > 1 and in_turn == seen.backwards == loaders.batches
    steps, skipped = (in_turn if is_in_turn else _step_count(optimizers)) - fused, seen.skipped + fused
    _doubt_steps(seen, steps, fused, unknown)
    is_of_model = False
    if "samples" not in unknown and steps + skipped > loaders.batches:
        why = _why_not_model(seen, steps, skipped)
        is_of_model = not why
        if why:
            loaders.doubt(why)
    _doubt_others(seen, loaders.batches, unknown, is_of_model=is_of_model)
    found: dict[str, Any] = {
        "groups": [{"size": key[0], "backend": key[1], "count": count} for key, count in seen.groups.most_common(8)],
        "steps": steps,
        "skipped_steps": skipped,
        "backwards": seen.backwards,
        "accumulation": max(seen.a_step, default=None, key=lambda number: (seen.a_step[number], -number)),
        "forwards": None if seen.is_training else seen.steps.count,
        "samples": model.rows if is_of_model else loaders.rows,
        "samples_from": "model" if is_of_model else "loader",
        "batches": loaders.batches,
        "batch_size": (model.largest if is_of_model else loaders.largest) or None,
        "samples_without_gradient": model.other_rows + model.waiting_rows if is_of_model else loaders.other_rows,
        "passes": loaders.whole,
        "samples_per_pass": loaders.whole_rows,
        "dataset_samples": loaders.dataset,
        "data_seconds": loaders.seconds,
        "collective_seconds": seen.collective_seconds,
        "exchange_seconds_a_backward": seen.exchanges.mean(),
        "lr_first": seen.rates[0],
        "lr_last": seen.rates[1],
        **_clocks(seen, is_of_model=is_of_model),
        **_peaks(),
    }
    found.update((name, None) for name in unknown.keys() & found.keys())
    found.update((name, None) for name, source in _NULL_TOO.items() if source in unknown)
    return {**found, "unknown": {name: why for name, why in unknown.items() if name in found}}


def _doubt(unknown: dict[str, str], *doubts: tuple[Any, ...]) -> None:
    """Record the reasons that apply, each for the figures listed after it; a figure keeps its first reason."""
    for applies, why, *names in doubts:
        for name in names if applies else ():
            unknown.setdefault(name, why)


def _doubt_steps(seen: Process, steps: int, fused: int, unknown: dict[str, str]) -> None:
    most = max(seen.a_step, default=seen.since_step)
    _doubt(
        unknown,
        (fused and len(seen.optimizers) > 1, "several fused optimizers skip steps", "steps"),
        (not steps and seen.backwards, "gradients were computed, and no step of an optimizer was seen", "steps"),
        (seen.since_step > 2 * most, "more gradients were computed than steps explain", "steps"),
    )
    why = unknown.get("steps") or "no step of an optimizer was seen"
    _doubt(unknown, ("steps" in unknown or not steps, why, "samples", *_OF_LOADERS))


def _doubt_others(seen: Process, batches: int, unknown: dict[str, str], *, is_of_model: bool) -> None:
    fed = seen.model.feeds if is_of_model else batches
    is_open = len(seen.optimizers) > 1 or (not is_of_model and "batches" in unknown)
    _doubt(
        unknown,
        (is_of_model, "no batch came from a DataLoader, or not one for each step", *_OF_LOADERS),
        (not seen.optimizers, "no step of an optimizer was seen", "accumulation"),
        (is_open or fed - seen.since_step > seen.backwards, "several optimizers, or unknown batches", "accumulation"),
        (seen.backwards != fed, "several backward passes a batch, or batches for each", "accumulation"),
        (seen.rates[0] is None, "no step, or a rate that is no number", "lr_first"),
        (seen.rates[1] is None, "no step, or a rate that is no number", "lr_last"),
        (any("nccl" in name for _, name in seen.groups), "NCCL's collectives are asynchronous", "collective_seconds"),
        (seen.exchanges.unknown, seen.exchanges.unknown, "exchange_seconds_a_backward"),
    )


def _step_count(optimizers: list[list[Any]]) -> int:
    """Return the number of steps: the most of any one of the optimizers that alternate, summed over successive ones."""
    total = most = last = 0
    for steps, first, end in optimizers:
        if first > last:
            total, most = total + most, 0
        most, last = max(most, steps), max(last, end)
    return total + most


def _why_not_model(seen: Process, steps: int, skipped: int) -> str:
    """Return why the rows that entered the model differ from the samples trained on; '' if they do not."""
    few = "there are more steps than batches of a DataLoader with a backward pass"
    why = few if seen.loaders.is_used else "no batch came from a DataLoader"
    if len(seen.optimizers) > 1:
        return f"{why}, and there are several optimizers"
    if seen.model.unknown or seen.model.uncounted:
        return f"{why}, and {seen.model.unknown or seen.model.uncounted}"
    if seen.closures > steps or seen.model.feeds < steps + skipped:
        return f"{why}, and gradients are not computed once before each step"
    return ""


def _clocks(seen: Process, *, is_of_model: bool) -> dict[str, Any]:
    timed, offset = seen.steps, time.time() - time.perf_counter()
    warmup = timed.warmup()
    found: dict[str, Any] = {
        "first_step_ms": int((timed.first_end + offset) * 1000) if timed.count else None,
        "last_step_ms": int((timed.last_end + offset) * 1000) if timed.count else None,
        "warmup_steps": warmup,
        "step_seconds": warmup and timed.quantiles(warmup),
    }
    if warmup:
        mark, done = timed.marks[warmup - 1], seen.done()
        found["seconds_after_warmup"] = timed.last_end - mark[0]
        found["samples_after_warmup"] = int(done[is_of_model] - mark[1 + is_of_model])
        found["data_seconds_after_warmup"] = done[2] - mark[3]
        found["collective_seconds_after_warmup"] = done[3] - mark[4]
    return found


def _peaks() -> dict[str, int | None]:
    cuda = sys.modules["torch"].cuda
    return {
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "peak_gpu_bytes": cuda.max_memory_allocated() if cuda.is_initialized() else None,
    }
