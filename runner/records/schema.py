"""Structures of `run.json`, schema version 1: times are UTC in ISO 8601, durations in seconds.

msgspec checks types and ranges when decoding. Facts reported by programs and machines are open mappings.
"""

import re
from collections import defaultdict
from collections.abc import Hashable
from functools import cache
from threading import Lock
from typing import Annotated, Any, TypeVar, cast

import msgspec

from runner.core.values import LARGEST

SCHEMA = 1
LARGEST_RECORD = 64_000_000
_making = Lock()
_Kind = TypeVar("_Kind")
FINISHED = ("completed", "failed", "timed_out", "interrupted", "killed", "incomplete")
NO_OUTCOME = "incomplete", "the runner did not record how the run ended: it was killed, or it could not write"
"""Status and reason of a run whose runner was killed."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Figure = Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Code = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**32)]
Doubts = dict[str, None]
"""Doubts about a run during parsing, as keys: a mapping keeps each doubt once, in order."""
_NEVER_NEGATIVE = ("accuracy", "seconds", "bytes", "per_second", "samples", "samples_of_each_process", "steps", "size")
NO_TRAINING = "no training of this layout: "
"""Prefix of doubts that exclude a run from all comparisons."""


class Side(msgspec.Struct):
    """Side of the comparison that a run was made for: id of the comparison, `A` or `B`, and a label."""

    comparison: str
    name: str
    label: str


BETWEEN_NODES = "between nodes"
OF_EACH_NODE = "of each node"
"""Kind of options that affect durations, like `BETWEEN_NODES`. They may have a value for each node: `1,0.5`."""


class Launch(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Description of a run, written once before its launch.

    `dialects` maps names to texts. The text of a dialect of the kit is ''. `metrics` holds the patterns of `--metric`,
    and `options` the options of the target. `option_axes` maps each option that affects durations to its kind. In
    `axes`, `args` and `definition`, NaN and infinity are strings. `masked` lists `request/code.diff` if a secret in it
    was masked.
    """

    schema: Annotated[int, msgspec.Meta(le=SCHEMA)]
    id: str
    experiment: str
    target: str
    layout: str
    axes: dict[str, Any]
    repeat: Count
    repeats: Count
    program: str
    args: dict[str, Any]
    scaling: str | None
    measure: str
    device: str
    timeout_seconds: float
    definition: dict[str, Any]
    definition_sha256: str
    argv: list[list[str]]
    started: str
    runner: dict[str, Any]
    host: dict[str, Any]
    code: dict[str, Any]
    options: dict[str, Any] = {}
    option_axes: dict[str, str] = {}
    image: dict[str, Any] | None = None
    by_hand: bool = False
    patience_seconds: float | None = None
    dialects: dict[str, str] = {}
    metrics: dict[str, dict[str, str]] = {}
    side: Side | None = None
    masked: list[str] = []


class NodeExit(msgspec.Struct, omit_defaults=True):
    """Exit report of a node's launcher: an exit code, or the signal that killed the launcher.

    If both are missing, the node was removed or killed before it could report. `removed` marks a pod that was deleted
    while running. `why` is the cluster's explanation, and `place` holds pod, machine, image, digest and limits.
    """

    node: Count
    code: Code | None = None
    signal: str | None = None
    stopped: bool = False
    out_of_memory: bool = False
    stopped_because: str | None = None
    removed: bool = False
    why: str | None = None
    place: dict[str, Any] = {}


class StuckRank(msgspec.Struct, omit_defaults=True):
    """Rank of a run without progress: its last event, its position, and its stack, innermost line first.

    `quiet_seconds` is the time since the rank's last line. It is None if the rank printed nothing.
    """

    rank: Count
    node: Count
    words: str
    event: str = ""
    quiet_seconds: float | None = None
    stack: list[str] = []


class Stuck(msgspec.Struct, omit_defaults=True):
    """Explanation of a run without progress.

    `says` holds sentences, the cause first. `rank` is the rank that the other ranks wait for. `quiet_seconds` is the
    time since the last line of any rank.
    """

    quiet_seconds: float
    says: list[str] = []
    rank: Count | None = None
    ranks: list[StuckRank] = []


class Outcome(msgspec.Struct, kw_only=True, omit_defaults=True):
    """End of a run as seen by the runner, kept in `raw/outcome.json`.

    `stopped_because` is `interrupted`, `timed_out`, `hung`, or a sentence on why the run could not be started or
    followed. `stuck` locates the ranks if all ranks were silent at the end.
    """

    ended: str
    wall_seconds: Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]
    exits: list[NodeExit]
    stopped_because: str | None = None
    stuck: Stuck | None = None


class Failure(msgspec.Struct, omit_defaults=True):
    """Rank that failed first in a run, with the cause and the last lines of output.

    `cause` is an exception, or what a container engine or cluster reports. `hint` is a name in `hints.yaml`.
    """

    rank: Count | None
    node: Count
    exit_code: Code | None = None
    signal: str | None = None
    last_lines: list[str] = []
    cause: str | None = None
    hint: str | None = None


class Group(msgspec.Struct):
    """Process groups of one size and backend that a process joined."""

    size: Count
    backend: str
    count: Count


class Observed(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Figures of trainkit/observer about one process, in SI units. `unknown` says why figures are missing.

    `samples` counts the rows of data that a backward pass followed. Figures with `after_warmup` in their name cover the
    time from the end of warm-up to the last step.
    """

    process: Count
    rank: Count
    is_last: bool = False
    groups: list[Group] = []
    steps: Count | None = None
    skipped_steps: Count = 0
    backwards: Count = 0
    forwards: Count | None = None
    accumulation: Count | None = None
    samples: Count | None = None
    samples_from: str | None = None
    batches: Count | None = None
    batch_size: Count | None = None
    samples_without_gradient: Count | None = None
    passes: Count | None = None
    samples_per_pass: Count | None = None
    dataset_samples: Count | None = None
    data_seconds: Figure | None = None
    collective_seconds: Figure | None = None
    exchange_seconds_a_backward: Figure | None = None
    lr_first: Figure | None = None
    lr_last: Figure | None = None
    first_step_ms: Count | None = None
    last_step_ms: Count | None = None
    warmup_steps: Count | None = None
    step_seconds: dict[str, Figure] | None = None
    seconds_after_warmup: Figure | None = None
    samples_after_warmup: Count | None = None
    data_seconds_after_warmup: Figure | None = None
    collective_seconds_after_warmup: Figure | None = None
    peak_bytes: Count | None = None
    peak_gpu_bytes: Count | None = None
    unknown: dict[str, str] = {}


class RankFacts(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Facts of one rank: fields of `run_start`, the number of events, and the error that ended the rank.

    `observed` holds trainkit/observer's figures if the rank printed no events.
    """

    rank: Count
    node: Count = 0
    facts: dict[str, Any] = {}
    status: str | None = None
    events_seen: Count = 0
    events_expected: Count | None = None
    error: str | None = None
    observed: Observed | None = None


class Load(msgspec.Struct):
    """Load of one node: number of samples, mean and maximum of each figure in training, and values over time."""

    node: Count
    looks: Count
    mean: dict[str, Figure]
    most: dict[str, Figure]
    points: dict[str, list[Figure | None]]


class Record(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Content of `run.json`: the launch and, once the run has ended, everything parsed from its raw files.

    If the program prints no events, `printed` holds the figures read from its output. `sources` states the origin of
    each figure that does not come from events. `doubts` are reasons not to rely on the run, such as a clock that ran
    backwards. A run with doubts supports no claim.
    """

    launch: Launch
    status: Annotated[str, msgspec.Meta(pattern=f"^({'|'.join(('running', *FINISHED))})$")]
    reason: str | None = None
    doubts: list[str] = []
    outcome: Outcome | None = None
    failure: Failure | None = None
    ranks: list[RankFacts] = []
    metrics: dict[str, Figure] = {}
    phases: dict[str, Figure] = {}
    facts: dict[str, Any] = {}
    epochs: list[dict[str, Any]] = []
    evaluations: list[dict[str, Any]] = []
    load: list[Load] = []
    printed: dict[str, Any] = {}
    sources: dict[str, str] = {}
    events: dict[str, int] = {}


def figure(name: str, value: object) -> float | None:
    """Return a value as a figure. Returns None if the value is not a number.

    Raises ValueError if the value cannot have been measured. Seconds, bytes, rates and counts are at least 0,
    accuracies lie between 0 and 1, and no figure exceeds `values.LARGEST`.
    """
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    least = 0.0 if name.endswith(_NEVER_NEGATIVE) else -LARGEST
    if least <= value <= (1.0 if name.endswith("accuracy") else LARGEST):
        return value
    shown = f"{value:g}" if isinstance(value, float) or abs(value) < 10**15 else "beyond 10^15"
    raise ValueError(f"{name} {shown} cannot have been measured")


def load_figure(name: str) -> str:
    """Return the device-independent name of a load figure: `gpu_percent` for `gpu0_percent`."""
    return re.sub(r"^gpu\d+_", "gpu_", name)


def mean_load(nodes: list[Load]) -> dict[str, float]:
    """Average each load figure over nodes and devices."""
    values = defaultdict(list)
    for node in nodes:
        for name, value in node.mean.items():
            values[load_figure(name)].append(value)
    return {figure: sum(of_figure) / len(of_figure) for figure, of_figure in values.items()}


def read_record(data: bytes) -> Record:
    """Decode `run.json`. Raises ValueError if it is invalid."""
    return decode(data, Record)


def read_launch(data: bytes) -> Launch:
    """Decode `request/launch.json`. Raises ValueError if it is invalid."""
    return decode(data, Launch)


def decode(data: bytes, kind: type[_Kind]) -> _Kind:
    """Decode JSON into a structure.

    Raises ValueError if the JSON is cut off, has another structure, or has a newer schema.
    """
    try:
        with _making:  # msgspec 0.22 crashes if two threads use a new type at once
            decoder = _decoder(cast("Hashable", kind))
        return cast("_Kind", decoder.decode(data))
    except msgspec.ValidationError as error:
        newer = f"of a schema newer than this runner's {SCHEMA}: update the runner"
        why = newer if str(error).endswith("schema`") else f"not a {kind.__name__} of this version: {error}"
        raise ValueError(why) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"broken or cut off: {error}") from None


@cache
def _decoder(kind: Any) -> Any:
    return msgspec.json.Decoder(kind)
