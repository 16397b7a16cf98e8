"""Reduce a record to the validated fields that comparisons use."""

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from typing import Annotated, Any

import msgspec

from runner.core.layout import Layout
from runner.core.text import listed
from runner.definitions.environment import PREFIX
from runner.records.record_facts import end_of, facts_here, figures_of, machines_of, moment_of
from runner.records.schema import BETWEEN_NODES, OF_EACH_NODE, Count, Figure, Launch, Record, figure, mean_load
from runner.report.bottlenecks import causes
from runner.report.times import disturbances, is_load_known, times_of

DATA_DIR = "data_dir"
"""The argument with the data's path. Paths may differ between machines, so the data is compared by its hash."""
UNKNOWN_HARDWARE = "unknown"
"""The hardware of a run on other machines whose processes failed before reporting their hardware."""
_COMPARED = re.compile(r"(?:NCCL|GLOO|OMP|TORCH|PYTORCH)_\w{1,100}")
_LEFT_OUT = re.compile(
    r"OMP_NUM_THREADS"  # the threads of a process are compared as torch counts them
    r"|NCCL_DEBUG.*|.*_(?:LOGS?|LOG_\w+|STACKTRACES|DUMP\w*|VERSION)|NCCL_.*WARN\w*"  # output
    r"|.*_(?:SOCKET_IFNAME|COMM_ID|HOSTID|ADDR|PORT)"  # interfaces and addresses, for example NCCL_SOCKET_IFNAME
    r"|.*_(?:\w*FILE|DIR|PATH|HOME)"  # places
    r"|.*_ASYNC_ERROR_HANDLING|TORCH_CPU"  # the first is set by torchrun, the second by the image
)

_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class RunSummary(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    """The fields of a run that comparisons use.

    Attributes:
        id: shared by all copies of the record and by no other run; "" if unknown.
        option_axes: the axes that are options of the target, each with its kind.
        own_args: arguments that only the run's program has, and no other program of the experiment.
        unobserved: why a script's samples could not be counted, or its warm-up could not be separated.
        exchange_share: the share of an epoch in which ranks exchange data or wait for others, averaged over epochs.
        same: values that must be equal in all runs of a claim, by name.
        machines: the (boot id, name) of each machine.
        memory: the least and the most memory of a machine, in bytes.
        learned: the first and the last value of each loss or other evaluation figure, by name.
        side: the comparison's id, `A` or `B`, and the side's label; None if the run was made for no comparison.
        slowed: a sentence for each cause that slowed the run.
        began: when the run's processes started, in seconds since 1970 UTC.
        ended: when all processes of the run had ended.
    """

    path: str = ""
    id: str = ""
    experiment: str
    target: str
    status: str
    reason: str | None
    doubts: list[str] = []
    layout: str
    axes: dict[str, Any]
    option_axes: dict[str, str] = {}
    program: str
    args: dict[str, Any]
    own_args: dict[str, Any] = {}
    scaling: str | None
    measure: str
    device: str
    started: str
    repeat: Count
    definition_sha256: str
    seconds: Figure | None
    wall_seconds: Figure | None = None
    unobserved: str = ""
    processes: Count
    hardware: str
    heterogeneous: bool
    cores: Count
    accuracy: _Share | None
    best_accuracy: _Share | None
    eval_samples: Count
    trained_samples: Count
    steps: Count
    global_batch_size: Count
    samples_of_each_process: Count = 0
    bytes_moved: float | None = None
    mfu: float | None = None
    input_share: float | None = None
    exchange_share: float | None = None
    torch: str
    same: dict[str, str]
    by_hand: bool = False
    load: dict[str, float] = {}
    load_known: bool = True
    disturbed: list[str] = []
    machines: list[tuple[str, str]] = []
    memory: list[float] = []
    learned: dict[str, list[float]] = {}
    side: tuple[str, str, str] | None = None
    sources: dict[str, str] = {}
    slowed: list[str] = []
    followed_clock: bool = False
    began: float | None = None
    ended: float | None = None

    @property
    def cell(self) -> str:
        """The name of the run's row in its block: the layout and the values of the axes."""
        return " ".join([self.layout, *(str(value) for value in self.axes.values())])


def summary_of(record: Record, path: str = "") -> RunSummary:
    """Reduce a record to its summary. Raises ValueError or another error of `BROKEN` if a value has a wrong type."""
    launch, metrics, side = record.launch, record.metrics, record.launch.side
    layout, hint = Layout.parse(launch.layout), record.failure and record.failure.hint
    facts = [rank.facts for rank in record.ranks if rank.facts]
    first = facts[0] if facts else {}
    machines, times = machines_of(record), times_of(record)
    option_axes = _option_axes(launch, layout)
    models = sorted({fact["device_name"] for fact in facts if fact.get("device_name")})
    cores = facts_here(launch).get("cores") or first.get("machine_cores") or 0
    hardware = listed(models or [_device_from_outside(record)], " + ")
    doubts = [*record.doubts]
    accuracies: dict[str, float | None] = dict.fromkeys(("final_accuracy", "best_accuracy"))
    for name in accuracies:
        try:
            accuracies[name] = figure(name, metrics.get(name))
        except ValueError as error:
            doubts.append(str(error))
    fields = {
        **msgspec.structs.asdict(launch),  # experiment, target, program, measure, ...
        "path": path,
        # Imported runs may share an id, but not also the start.
        "id": f"{launch.id} {launch.started}",
        "status": record.status,
        "reason": f"{record.reason}; hint: {hint}" if hint and record.reason else record.reason,
        "doubts": doubts,
        "layout": str(layout),
        "axes": launch.axes | option_axes,
        "option_axes": {name: launch.option_axes[name] for name in option_axes},
        **_args(launch),
        "seconds": seconds if (seconds := metrics.get(launch.measure, 0.0)) > 0 else None,
        "wall_seconds": seconds if (seconds := metrics.get("wall_seconds", 0.0)) > 0 else None,
        "unobserved": record.facts.get("unobserved") or "",
        "processes": layout.world_size * (first.get("devices") or 1),
        "hardware": hardware + (f", {cores} cores" if launch.device == "cpu" and cores else ""),
        "heterogeneous": len(models) > 1,
        "cores": cores,
        "accuracy": accuracies["final_accuracy"],
        "best_accuracy": accuracies["best_accuracy"],
        "eval_samples": record.facts.get("eval_samples") or 0,
        "trained_samples": _count(record, "trained_samples"),
        "steps": _count(record, "steps"),
        "global_batch_size": record.facts.get("global_batch_size") or 0,
        "samples_of_each_process": _count(record, "samples_of_each_process"),
        "bytes_moved": metrics.get("bytes_moved_per_step"),
        "mfu": _share(metrics, "flops_per_second", "peak_flops_per_second"),
        "input_share": _share(metrics, "input_seconds", "train_seconds"),
        "exchange_share": times.mean("communication", "straggler") if times and times.knows_exchange else None,
        "torch": first.get("torch") or "",
        "same": _same(record, facts) | machines.kind | _variables(launch, facts),
        "load": mean_load(record.load),
        "load_known": is_load_known(record),
        "disturbed": disturbances(record),
        "machines": machines.each,
        "memory": machines.memory,
        "learned": figures_of(record),
        "side": (side.comparison, side.name, side.label) if side else None,
        "sources": record.sources,
        "slowed": [cause.sentence for cause in causes(times, record)] if times and record.status == "completed" else [],
        "followed_clock": "repeat_with" in record.facts,
        "began": moment_of(record),
        "ended": end_of(record),
    }
    return msgspec.convert(fields, RunSummary)


def _option_axes(launch: Launch, layout: Layout) -> dict[str, str]:
    """Return the target's options that affect speed, as axes. Different values of nodes are joined with `+`."""
    axes = {}
    for name, kind in launch.option_axes.items():
        value = launch.options.get(name)
        if kind == BETWEEN_NODES and value and layout.nodes > 1:
            axes[name] = str(value)
        elif kind == OF_EACH_NODE and value:
            own = [word.strip() for word in value.split(",")[: layout.nodes]]
            axes[name] = own[0] if len(set(own)) == 1 else "+".join(own)
    return axes


def _same(record: Record, facts: list[dict[str, Any]]) -> dict[str, str]:
    launch = record.launch
    return {
        "image": _image(record),
        "code": _code(launch, facts),
        "lock file": str(launch.code.get("lock_sha256")),
        "data": str(record.facts.get("data_sha256")),
        "torch": _values(facts, "torch"),
        "NCCL": _values(facts, "nccl"),
        "Python": _values(facts, "python"),
        "threads per process": _values(facts, "threads"),
        "cores of a node": _values(facts, "machine_cores") if launch.device == "cpu" else "",
    }


def _variables(launch: Launch, facts: list[dict[str, Any]]) -> dict[str, str]:
    """Return the variables that have to be the same in all runs of a claim: those that are no axes."""
    return {name: value for name, value in speed_variables(facts).items() if f"{PREFIX}{name}" not in launch.axes}


def speed_variables(facts: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the environment variables of a run's processes that may change its speed, by name.

    Variables for paths, addresses, interfaces and logging are left out.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for fact in facts:
        for name, value in fact.get("env", {}).items():
            if _changes_speed(name):
                found[name].add(value)
    return {name: listed(sorted(found[name])) for name in sorted(found)}


@cache
def _changes_speed(name: str) -> bool:
    return bool(_COMPARED.fullmatch(name) and not _LEFT_OUT.fullmatch(name))


def _args(launch: Launch) -> dict[str, dict[str, Any]]:
    """Split a run's args into args that separate blocks and args of one program. Axes and data path are left out."""
    own = {key for keys in launch.definition.get("program_args", {}).values() for key in keys}
    told = {key: value for key, value in launch.args.items() if key not in {DATA_DIR, *launch.axes}}
    return {
        "args": {key: value for key, value in told.items() if key not in own},
        "own_args": {key: value for key, value in told.items() if key in own},
    }


def _count(record: Record, name: str) -> int:
    counted: int = record.facts.get(name) or sum(row.get(name) or 0 for row in record.epochs)
    return counted


def _share(metrics: dict[str, float], part: str, whole: str) -> float | None:
    return metrics[part] / metrics[whole] if metrics.get(part) and metrics.get(whole) else None


def _code(launch: Launch, facts: list[dict[str, Any]]) -> str:
    """Return the hash of the sources that the ranks reported. If they reported none, return the hash of the checkout.

    The ranks of a script report only the hash of the script. In this case both hashes are returned, because an image
    may contain a different script than the checkout.
    """
    told = [fact for fact in facts if "sources_sha256" in fact]
    started = _values([fact for fact in facts if fact.get("program_sha256")], "program_sha256")
    of_checkout = str(launch.code.get("sources_sha256"))
    return _values(told, "sources_sha256") or " ".join(filter(None, (started, of_checkout)))


def _image(record: Record) -> str:
    """Return the image's digest or id, as known before the launch, or else as the pods report.

    Tags do not identify an image, because they may be moved.
    """
    image = record.launch.image or {}
    exits = record.outcome.exits if record.outcome else []
    pulled = _values([end.place for end in exits if "digest" in end.place], "digest", " ")
    return str(image.get("digest") or image.get("id") or pulled or None)


def _device_from_outside(record: Record) -> str:
    """Name the device if no rank named one. Returns the machines of its pods, or else the runner's GPU or CPU."""
    here = facts_here(record.launch)
    places = [end.place for end in record.outcome.exits] if record.outcome else []
    if machines := {place["machine"] for place in places if place.get("machine")}:
        return f"machine {listed(sorted(machines))}"
    if record.launch.device == "cuda" and here.get("gpus"):
        return str(here["gpus"][0])
    return str(here.get("cpu", UNKNOWN_HARDWARE))


def _values(facts: Iterable[dict[str, Any]], field: str, between: str = ", ") -> str:
    return listed(sorted({str(fact.get(field)) for fact in facts}), between)
