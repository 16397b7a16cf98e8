"""Record -> Digest: the few fields of a record that the table is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from runner import load
from runner.layout import Layout

if TYPE_CHECKING:
    from runner.schema import Launch, Record


# Where the data lies differs between machines and says nothing of the work; what it holds is compared by its hash.
PLACES = ("data_dir",)


class Digest(msgspec.Struct, kw_only=True, array_like=True, gc=False):
    """One run, as compared; `same` is what has to be the same in all runs of a claim, by name."""

    path: str
    experiment: str
    target: str
    status: str
    reason: str | None
    layout: str
    axes: dict[str, Any]
    program: str
    args: dict[str, Any]
    scaling: str
    measure: str
    device: str
    started: str
    repeat: int
    definition_sha256: str
    seconds: float | None
    processes: int
    hardware: str
    unlike: bool
    cores: int
    accuracy: float | None
    best_accuracy: float | None
    eval_samples: int
    trained_samples: int
    steps: int
    global_batch_size: int
    bytes_moved: float | None = None
    torch: str
    same: dict[str, str]
    runner: dict[str, Any]
    by_hand: bool = False
    collected_afterwards: bool = False
    load: dict[str, float] = {}


def digest(record: Record, path: str) -> Digest:
    """Reduce a record to what the table needs."""
    launch = record.launch
    facts = [rank.facts for rank in record.ranks if rank.facts]
    first = facts[0] if facts else {}
    models = _models(facts) or [_from_outside(launch)]
    cores = int(launch.host.get("cores") or 0)
    devices = first.get("devices")
    by_program = launch.definition.get("program_args", {}).values()
    told_apart = {*PLACES, *launch.axes, *(key for own in by_program for key in own)}
    return Digest(
        path=path,
        experiment=launch.experiment,
        target=launch.target,
        status=record.status,
        reason=record.reason,
        layout=launch.layout,
        axes=launch.axes,
        program=launch.program,
        args={key: value for key, value in launch.args.items() if key not in told_apart},
        scaling=launch.scaling,
        measure=launch.measure,
        device=launch.device,
        started=launch.started,
        repeat=launch.repeat,
        definition_sha256=launch.definition_sha256,
        seconds=_positive(record.metrics.get(launch.measure)),
        processes=Layout.parse(launch.layout).world_size * (devices if isinstance(devices, int) else 1),
        hardware=" + ".join(models) + (f", {cores} cores" if launch.device == "cpu" and cores else ""),
        unlike=len(models) > 1,
        cores=cores,
        accuracy=record.metrics.get("final_accuracy"),
        best_accuracy=record.metrics.get("best_accuracy"),
        eval_samples=_count(record.facts.get("eval_samples")),
        trained_samples=sum(_count(epoch.get("trained_samples")) for epoch in record.epochs),
        steps=sum(_count(epoch.get("steps")) for epoch in record.epochs),
        global_batch_size=_count(record.facts.get("global_batch_size")),
        bytes_moved=record.metrics.get("bytes_moved_per_step"),
        load=_load(record),
        torch=str(first.get("torch", "")),
        same={
            "image": _image(record),
            "code": _code(launch, facts),
            "data": str(record.facts.get("data_sha256")),
            "torch": _values(facts, "torch"),
            "NCCL": _values(facts, "nccl"),
            "Python": _values(facts, "python"),
            "threads per process": _values(facts, "threads"),
        },
        runner=launch.runner if record.status == "running" else {},
        by_hand=launch.by_hand,
        collected_afterwards=bool(record.outcome and record.outcome.collected_afterwards),
    )


def _load(record: Record) -> dict[str, float]:
    """Average what the nodes told of themselves while they trained."""
    figures = {
        "cpu_percent": load.mean(record.load, "cpu_percent"),
        "memory_bytes": load.mean(record.load, "memory_bytes"),
        "gpu_percent": load.mean(record.load, r"gpu\d+_percent"),
        "gpu_memory_bytes": load.mean(record.load, r"gpu\d+_memory_bytes"),
    }
    return {name: value for name, value in figures.items() if value is not None}


def _code(launch: Launch, facts: list[dict[str, Any]]) -> str:
    """Name the programs as they were where they ran; a run that did not tell had those of the checkout."""
    told = sorted({str(fact["sources_sha256"]) for fact in facts if "sources_sha256" in fact})
    return ", ".join(told) or str(launch.code.get("sources_sha256"))


def _image(record: Record) -> str:
    """Name the image by what no one can move: as it was found before the launch, or as the pods tell."""
    image = record.launch.image or {}
    exits = record.outcome.exits if record.outcome else []
    pulled = sorted({str(one.place["digest"]) for one in exits if "digest" in one.place})
    return str(image.get("digest") or image.get("id") or " ".join(pulled) or None)


def _models(facts: list[dict[str, Any]]) -> list[str]:
    return sorted({str(fact["device_name"]) for fact in facts if fact.get("device_name")})


def _from_outside(launch: Launch) -> str:
    """Name the device of a run that died before it could: as the runner saw it."""
    gpus = launch.host.get("gpus") or []
    return str(gpus[0] if launch.device == "cuda" and gpus else launch.host.get("cpu", "unknown"))


def _values(facts: list[dict[str, Any]], field: str) -> str:
    return ", ".join(sorted({str(fact.get(field)) for fact in facts}))


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _positive(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and value > 0 else None
