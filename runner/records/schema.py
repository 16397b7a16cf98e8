"""What is kept of a run: the shape of `run.json`, schema version 1. Times are UTC in ISO 8601, durations seconds.

Types and ranges are checked as it is decoded, once. What programs and machines say of themselves stays open.
"""

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
"""Status and reason of a run whose runner did not live to see its end."""

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Figure = Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Code = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**32)]


class Side(msgspec.Struct):
    """The side of a comparison that a run was made for: the comparison's id, `A` or `B`, and what the side is."""

    comparison: str
    name: str
    label: str


BETWEEN_NODES = "between nodes"
OF_EACH_NODE = "of each node"
"""Kinds of options that decide how long a run takes. A value of the second kind may name one for each node: `1,0.5`."""


class Launch(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What was known before the run was started; it is written once, before the launch, and never changes.

    `dialects` are how the stdout of a program is read that knows nothing of the kit: the names of the kit's, and the
    text of others. `metrics` are the figures that a person named: the pattern of each, and perhaps which one is its
    best. `options` are the target's, as given, and `option_axes` the kinds of those that decide how long a run takes.
    Floats that JSON lacks are words in `axes`, `args` and `definition`. `masked` names what is kept with a secret
    masked in it: `request/code.diff`, or nothing.
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
    """How the processes of one node ended, as its launcher reports: an exit code, or the signal that killed it.

    One that has neither is not known to have ended: it was removed, or killed with all that could have reported it.
    `removed` is a pod that somebody deleted while it ran, `why` what a cluster says of the end, and `place` where it
    ran: pod, machine, image and digest, limits.
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
    """One rank of a run that made no progress: its last event, where it was, and its stack, the innermost line first.

    `quiet_seconds` is for how long nothing had been heard of it; null if nothing ever was.
    """

    rank: Count
    node: Count
    words: str
    event: str = ""
    quiet_seconds: float | None = None
    stack: list[str] = []


class Stuck(msgspec.Struct, omit_defaults=True):
    """Why a run made no progress when it was ended: sentences, the cause first, and the rank that the others wait for.

    `quiet_seconds` is for how long nothing had been heard of any rank.
    """

    quiet_seconds: float
    says: list[str] = []
    rank: Count | None = None
    ranks: list[StuckRank] = []


class Outcome(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What was seen from outside while the run lasted: it is kept in `raw/outcome.json`.

    `stopped_because` is `interrupted`, `timed_out`, `hung`, or in words why the run could not be started or followed.
    `stuck` says where the ranks were, if nothing had been heard of them for some time when the run was ended.
    """

    ended: str
    wall_seconds: Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]
    exits: list[NodeExit]
    stopped_because: str | None = None
    stuck: Stuck | None = None


class Failure(msgspec.Struct, omit_defaults=True):
    """The first failing rank, why it failed, and the last lines that it printed.

    `cause` is the exception, or what a container or a cluster says of the end; `hint` names the well-known failure
    that it is (`hints.yaml`).
    """

    rank: Count | None
    node: Count
    exit_code: Code | None = None
    signal: str | None = None
    last_lines: list[str] = []
    cause: str | None = None
    hint: str | None = None


class Group(msgspec.Struct):
    """Process groups of one size and backend that a process is in."""

    size: Count
    backend: str
    count: Count


class Observed(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What trainkit/observer saw in one process until now, in SI units; `unknown` says why a figure is null.

    `samples` are rows that a backward pass followed. What ends in `after_warmup` is of the time from the end of the
    warm-up to the end of the last step.
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
    """One rank: what its `run_start` said of the inside, which of its events arrived, and the error that ended it.

    `observed` is what was seen in a process that prints no events.
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
    """How busy one node was: looks, the mean and the most of each figure while it trained, and its points over time."""

    node: Count
    looks: Count
    mean: dict[str, Figure]
    most: dict[str, Figure]
    points: dict[str, list[Figure | None]]


class Record(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`run.json`: the launch, and once the run has ended, everything that its raw files say.

    `printed` is what a program that knows nothing of the kit says of itself, as `runner collect` shows a log, and
    `sources` where each figure of the run comes from, if it is not from the kit's own events.

    `doubts` are the reasons not to rely on it, for example a clock that runs backwards: each is a note below the
    table, and no claim rests on the run.
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


def read_record(data: bytes) -> Record:
    """Decode `run.json`."""
    return decode(data, Record)


def read_launch(data: bytes) -> Launch:
    """Decode `request/launch.json`."""
    return decode(data, Launch)


def decode(data: bytes, kind: type[_Kind]) -> _Kind:
    """Decode JSON into a structure; ValueError says in one line if it is torn, of another shape, or newer."""
    try:
        with _making:  # msgspec 0.22 crashes if two threads meet a type for the first time
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
