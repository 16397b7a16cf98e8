"""What is kept of a run: the shape of `run.json`, schema version 1. Times are UTC in ISO 8601, durations seconds."""

from __future__ import annotations

from typing import Any

import msgspec

SCHEMA = 1
FINISHED = ("completed", "failed", "timed_out", "interrupted", "killed", "incomplete")


class Launch(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What was known before the run was started; it is written once, before the launch, and never changes."""

    schema: int
    id: str
    experiment: str
    target: str
    layout: str
    axes: dict[str, Any]
    repeat: int
    repeats: int
    program: str
    args: dict[str, Any]
    scaling: str
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
    image: dict[str, Any] | None = None
    by_hand: bool = False


class NodeExit(msgspec.Struct, omit_defaults=True):
    """How the processes of one node ended, as its launcher tells: an exit code, or the signal that killed it.

    One that has neither is not known to have ended: it was removed or killed with all that could have told.
    `removed` is a pod that somebody deleted while it ran, `why` what a cluster says of the end, and `place` where it
    ran: pod, machine, image and digest, limits.
    """

    node: int
    code: int | None = None
    signal: str | None = None
    stopped: bool = False
    out_of_memory: bool = False
    stopped_because: str | None = None
    removed: bool = False
    why: str | None = None
    place: dict[str, Any] = {}


class Outcome(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What was seen from outside while the run lasted: it is kept in `raw/outcome.json`."""

    ended: str
    wall_seconds: float
    exits: list[NodeExit]
    stopped_because: str | None = None
    collected_afterwards: bool = False


class Failure(msgspec.Struct, omit_defaults=True):
    """The first failing rank, and the last lines that it printed."""

    rank: int | None
    node: int
    exit_code: int | None = None
    signal: str | None = None
    last_lines: list[str] = []


class RankFacts(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One rank: what its `run_start` told of the inside, and which of its events arrived."""

    rank: int
    node: int = 0
    facts: dict[str, Any] = {}
    status: str | None = None
    events_seen: int = 0
    events_expected: int | None = None


class Record(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`run.json`: the launch, and once the run has ended, everything that its raw files tell."""

    launch: Launch
    status: str
    reason: str | None = None
    outcome: Outcome | None = None
    failure: Failure | None = None
    ranks: list[RankFacts] = []
    metrics: dict[str, float] = {}
    phases: dict[str, float] = {}
    facts: dict[str, Any] = {}
    epochs: list[dict[str, Any]] = []
    evaluations: list[dict[str, Any]] = []
    load: list[dict[str, Any]] = []
    events: dict[str, int] = {}
    malformed: list[str] = []
