"""Record -> RunSummary: the few fields of a record that the table is made of, each checked."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from runner.core.layout import LARGEST_WORLD, Layout
from runner.core.text import listed, one_line
from runner.core.values import plain, positive, text, whole
from runner.records import utilization
from runner.records.checks import Doubts, check_metrics
from runner.records.machine_facts import facts_here, kind_of, machines_of, memory_of
from runner.records.moment import end_of, moment_of
from runner.records.quality import figures_of
from runner.records.schema import Launch, Record
from runner.report.disturbance import disturbances, is_load_known
from runner.report.explain.times import times_of
from runner.report.explain.verdict import notes_of
from runner.report.target_axes import target_axes

# Where the data lies differs between machines and says nothing of the work; what it holds is compared by its hash.
PLACES = ("data_dir",)
MOST_CORES = 1_000_000
UNKNOWN_HARDWARE = "unknown"
"""The hardware of a run on other machines whose processes did not come so far as to name it."""
_LONGEST_NAME = 200
_LONGEST_IDENTITY = 1_000
_LARGEST_COUNT = 10**15
_LARGEST_SHARE = 1_000.0
_MOST_VARIABLES = 100
_COMPARED = re.compile(r"(?:NCCL|GLOO|OMP|TORCH|PYTORCH)_\w{1,100}")
_LEFT_OUT = re.compile(
    r"OMP_NUM_THREADS"  # the threads of a process are compared as torch counts them
    r"|NCCL_DEBUG.*|.*_(?:LOGS?|LOG_\w+|STACKTRACES|DUMP\w*|VERSION)|NCCL_.*WARN\w*"  # what is printed
    r"|.*_(?:SOCKET_IFNAME|COMM_ID|HOSTID|ADDR|PORT)"  # interfaces and addresses, for example NCCL_SOCKET_IFNAME
    r"|.*_(?:\w*FILE|DIR|PATH|HOME)"  # places
    r"|.*_ASYNC_ERROR_HANDLING|TORCH_CPU"  # torchrun's own, which changes with its version; the image's
)


class RunSummary(msgspec.Struct, kw_only=True, frozen=True, gc=False):
    """One run, as compared; `same` is what has to be the same in all runs of a claim, by name.

    `machines` are those that it was made on, `memory` the least and the most that one of them has, `learned` the first
    and the last value of each figure that says what was learned. `own_args` are the arguments of its program alone.
    `exchange_share` is the part of its epochs in which a rank waited for an exchange or for another rank.

    `id` is what all copies of its record share and no other run has; it is empty if that is not known.
    `option_axes` are the kinds of the axes that its target's options are.
    `side` is that of a comparison for which it was made: the comparison's id, `A` or `B`, and what the side is.
    `began` is when its processes started and `ended` when they had ended, in seconds since 1970 UTC.
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
    repeat: int
    definition_sha256: str
    seconds: float | None
    processes: int
    hardware: str
    heterogeneous: bool
    cores: int
    accuracy: float | None
    best_accuracy: float | None
    eval_samples: int
    trained_samples: int
    steps: int
    global_batch_size: int
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
    repeat_with: str = ""
    began: float | None = None
    ended: float | None = None

    @property
    def cell(self) -> str:
        """Name the run's row within its block: its layout and axes."""
        return " ".join([self.layout, *(str(value) for value in self.axes.values())])


def summary_of(record: Record) -> RunSummary:
    """Reduce a record to what the table needs; ValueError for a record that cannot be compared with any other."""
    launch = record.launch
    doubts = Doubts()
    for doubt in record.doubts:
        doubts.add(doubt)
    metrics = check_metrics(record.metrics, doubts)
    facts = [rank.facts for rank in record.ranks if rank.facts]
    first = facts[0] if facts else {}
    layout = Layout.parse(launch.layout)
    return RunSummary(
        **_identity(launch),
        **_setting(record, layout, facts, doubts),
        **_measured(record, metrics),
        status=record.status,
        reason=_reason(record),
        slowed=notes_of(record) if record.status == "completed" else [],
        repeat_with=_repeat_with(record),
        began=moment_of(record),
        ended=end_of(record),
        processes=layout.world_size * (_count(doubts, "devices", first.get("devices"), 1, LARGEST_WORLD) or 1),
        eval_samples=_count(doubts, "eval_samples", record.facts.get("eval_samples")),
        trained_samples=_total(doubts, "trained_samples", record.epochs),
        steps=_total(doubts, "steps", record.epochs),
        global_batch_size=_count(doubts, "global_batch_size", record.facts.get("global_batch_size")),
        torch=one_line(first.get("torch", ""), _LONGEST_NAME),
        same=_same(record, facts),
        doubts=doubts.all(),  # last, because what stands above adds to them
    )


def _identity(launch: Launch) -> dict[str, Any]:
    """Return which run it is.

    All copies of a record share its id and when it began, and no other run has both: an id alone may be that of several
    runs where somebody else has written the records.
    """
    side = launch.side
    return {
        "id": text(f"{launch.id} {launch.started}", _LONGEST_IDENTITY) or "",
        "experiment": _name(launch.experiment),
        "started": launch.started[:_LONGEST_NAME],
        "repeat": launch.repeat,
        "definition_sha256": launch.definition_sha256[:_LONGEST_NAME],
        "side": (_name(side.comparison), _name(side.name), _name(side.label)) if side else None,
        "by_hand": launch.by_hand,
    }


def _setting(record: Record, layout: Layout, facts: list[dict[str, Any]], doubts: Doubts) -> dict[str, Any]:
    """Return where a run was made and what it was told to do."""
    launch = record.launch
    axes, args = _mapping(launch.axes, "axes", doubts), _mapping(launch.args, "args", doubts)
    models = sorted({_name(fact["device_name"]) for fact in facts if fact.get("device_name")})
    told = facts_here(launch).get("cores") or (facts[0].get("machine_cores") if facts else None)
    cores = _count(doubts, "cores", told, most=MOST_CORES)
    hardware = listed(models or [_device_from_outside(record)], " + ")
    own_axes = target_axes(launch, layout)
    return {
        "target": _name(launch.target),
        "layout": str(layout),
        "axes": axes | own_axes,
        "option_axes": {name: launch.option_axes[name] for name in own_axes},
        "program": _name(launch.program),
        **_compared(args, launch),
        "scaling": _name(launch.scaling) if launch.scaling else None,
        "measure": _name(launch.measure),
        "device": _name(launch.device),
        "hardware": hardware + (f", {cores} cores" if launch.device == "cpu" and cores else ""),
        "heterogeneous": len(models) > 1,
        "cores": cores,
        "machines": machines_of(record),
        "memory": memory_of(record),
    }


def _measured(record: Record, metrics: dict[str, float]) -> dict[str, Any]:
    """Return the figures of a run."""
    load = {figure: utilization.mean(record.load, names) for figure, names in utilization.FIGURES.items()}
    return {
        "seconds": positive(metrics.get(record.launch.measure)),
        "accuracy": metrics.get("final_accuracy"),
        "best_accuracy": metrics.get("best_accuracy"),
        "bytes_moved": metrics.get("bytes_moved_per_step"),
        "mfu": _share(metrics, "flops_per_second", "peak_flops_per_second"),
        "input_share": _share(metrics, "input_seconds", "train_seconds"),
        "exchange_share": times.mean("communication", "straggler") if (times := times_of(record)) else None,
        "load": {name: value for name, value in load.items() if value is not None},
        "load_known": is_load_known(record),
        "disturbed": disturbances(record),
        "learned": figures_of(record),
        "sources": {_name(name): _name(place) for name, place in record.sources.items()},
    }


def _same(record: Record, facts: list[dict[str, Any]]) -> dict[str, str]:
    """Return what has to be the same in all runs of a claim, by name."""
    launch = record.launch
    return {
        "image": _image(record),
        "code": _code(launch, facts),
        "lock file": one_line(launch.code.get("lock_sha256"), _LONGEST_NAME),
        "data": one_line(record.facts.get("data_sha256"), _LONGEST_NAME),
        "torch": _values(facts, "torch"),
        "NCCL": _values(facts, "nccl"),
        "Python": _values(facts, "python"),
        "threads per process": _values(facts, "threads"),
        "cores of a node": _values(facts, "machine_cores") if launch.device == "cpu" else "",
        **kind_of(record),
        **speed_variables(facts),
    }


def speed_variables(facts: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the variables of a run's processes that change its speed, by name.

    Left out are those that name places, addresses or interfaces, and those that say what is printed.
    """
    found: dict[str, set[str]] = {}
    for own in facts:
        env = own.get("env")
        for name, value in env.items() if isinstance(env, dict) else ():
            is_compared = _COMPARED.fullmatch(name) and not _LEFT_OUT.fullmatch(name)
            if is_compared and (name in found or len(found) < _MOST_VARIABLES):
                found.setdefault(name, set()).add(one_line(value, _LONGEST_NAME))
    return {name: listed(sorted(found[name])) for name in sorted(found)}


def _repeat_with(record: Record) -> str:
    """Return what repeats a run that followed the clock: its arguments or a command; nothing for any other."""
    if "repeat_with" not in record.facts:
        return ""
    told = record.facts["repeat_with"]
    if not isinstance(told, dict):
        return "nothing known"
    words = one_line(" ".join(f"--set {name}={value}" for name, value in told.items()))
    return words if len(words) <= _LONGEST_NAME else "runner reproduce"


def _reason(record: Record) -> str | None:
    """Return why a run is not completed, and which well-known failure it is."""
    if not record.reason:
        return None
    name = record.failure.hint if record.failure else None
    if not name:
        return one_line(record.reason)
    from runner.records.hints import hints  # only for a failed run

    hint = hints().get(name)
    return one_line(f"{record.reason}; hint: {_name(name)}{f' ({hint.means})' if hint else ''}")


def _mapping(values: dict[str, Any], name: str, doubts: Doubts) -> dict[str, Any]:
    """Return axes or args, checked: a value that does not fit is null, and no claim rests on the run."""
    unfit: list[str] = []
    fitting = plain(values, unfit, name)
    for place in unfit:
        doubts.add(f"{place}: a value that cannot be compared")
    return fitting if isinstance(fitting, dict) else {}


def _compared(args: dict[str, Any], launch: Launch) -> dict[str, Any]:
    """Return the args that tell blocks apart, and beside them those of one program alone; no places and no axes."""
    by_program = launch.definition.get("program_args")
    programs = [keys for keys in by_program.values() if isinstance(keys, dict)] if isinstance(by_program, dict) else []
    own = {key for keys in programs for key in keys}
    told = {key: value for key, value in args.items() if key not in {*PLACES, *launch.axes}}
    return {
        "args": {key: value for key, value in told.items() if key not in own},
        "own_args": {key: value for key, value in told.items() if key in own},
    }


def _share(metrics: dict[str, float], part: str, whole_: str) -> float | None:
    """Divide two figures of a run, if it has both."""
    above, below = positive(metrics.get(part)), positive(metrics.get(whole_))
    found = above / below if above is not None and below is not None else None
    return found if found is not None and found <= _LARGEST_SHARE else None


def _code(launch: Launch, facts: list[dict[str, Any]]) -> str:
    """Name the programs as they were where they ran; a run that did not report them had those of the checkout.

    A script reports the hash of its own file alone: it stands beside that of the checkout, because an image may hold
    another script.
    """
    told = [fact for fact in facts if "sources_sha256" in fact]
    started = _values([fact for fact in facts if fact.get("program_sha256")], "program_sha256")
    of_checkout = one_line(launch.code.get("sources_sha256"), _LONGEST_NAME)
    return _values(told, "sources_sha256") or " ".join(filter(None, (started, of_checkout)))


def _image(record: Record) -> str:
    """Name the image by what no one can move: as it was found before the launch, or as the pods report it."""
    image = record.launch.image or {}
    exits = record.outcome.exits if record.outcome else []
    pulled = _values([end.place for end in exits if "digest" in end.place], "digest", " ")
    return one_line(image.get("digest") or image.get("id") or pulled or None, _LONGEST_NAME)


def _device_from_outside(record: Record) -> str:
    """Name the device of a run that did not: as the runner saw it, or by the machines that its pods were on."""
    launch = record.launch
    places = [end.place for end in record.outcome.exits] if record.outcome else []
    if machines := {_name(place["machine"]) for place in places if place.get("machine")}:
        return f"machine {listed(sorted(machines))}"
    gpus = facts_here(launch).get("gpus")
    if launch.device == "cuda" and isinstance(gpus, list) and gpus:
        return _name(gpus[0])
    return _name(facts_here(launch).get("cpu", UNKNOWN_HARDWARE))


def _values(facts: Iterable[dict[str, Any]], field: str, between: str = ", ") -> str:
    return listed(sorted({_name(fact.get(field)) for fact in facts}), between)


def _name(value: object) -> str:
    return one_line(text(value) if isinstance(value, str) else value, _LONGEST_NAME)


def _count(doubts: Doubts, name: str, value: object, least: int = 0, most: int = _LARGEST_COUNT) -> int:
    """Check a count of a record; one that is none is 0, and a doubt."""
    found = whole(value, least, most)
    if found is None and value is not None:
        doubts.add(f"{name}: no such count can be")
    return found or 0


def _total(doubts: Doubts, name: str, rows: list[dict[str, Any]]) -> int:
    """Check a count of each row, and their sum."""
    return _count(doubts, name, sum(_count(doubts, name, row.get(name)) for row in rows))
