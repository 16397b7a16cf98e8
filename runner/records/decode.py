"""Bytes of a run's folder -> Record, Launch, Outcome: a ValueError says what is wrong with them."""

from threading import Lock
from typing import Any, TypeVar

import msgspec

from runner.core.text import one_line
from runner.core.values import plain
from runner.records.schema import SCHEMA, STATUSES, Launch, Record

LARGEST_RECORD = 64_000_000
MOST_CONTAINERS = 500_000
MOST_VALUES = 2_000_000
"""A record of 65,536 ranks has less; more would take more memory than a table may."""
_SMALL = 4_000_000
_MAPPINGS = ("axes", "args", "definition", "runner", "host", "code", "options")
_decoder = msgspec.json.Decoder(Record)
_making = Lock()
_Kind = TypeVar("_Kind")


def read_record(data: bytes) -> Record:
    """Decode `run.json`; ValueError if it is torn, foreign, too large, or of a newer schema."""
    if not data.strip():
        raise ValueError("empty")
    _check_size(data)
    try:
        record = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(_why(data, error)) from None
    if record.launch.schema > SCHEMA:
        raise ValueError(_newer(record.launch.schema))
    if record.status not in STATUSES:
        raise ValueError(f"no status of a run: {one_line(record.status, 40)}")
    return record


def read_launch(data: bytes) -> Launch:
    """Decode `request/launch.json`; what JSON readers cannot carry is null."""
    launch = decode(data, Launch)
    if launch.schema > SCHEMA:
        raise ValueError(_newer(launch.schema))
    for name in _MAPPINGS:
        setattr(launch, name, plain(getattr(launch, name)) or {})
    launch.image = plain(launch.image)
    return launch


def decode(data: bytes, kind: type[_Kind]) -> _Kind:
    """Decode JSON into a structure."""
    _check_size(data)
    with _making:  # msgspec 0.22 crashes if two threads meet a type for the first time
        decoder = msgspec.json.Decoder(kind)
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"no {kind.__name__} of this runner: {one_line(error)}") from None


def _check_size(data: bytes) -> None:
    """Refuse what would take hundreds of megabytes in memory: each value takes up to a hundred times its JSON."""
    if len(data) < _SMALL:
        return
    if data.count(b"[") + data.count(b"{") > MOST_CONTAINERS or data.count(b",") > MOST_VALUES:
        raise ValueError(f"more than {MOST_VALUES:,} values")


def _why(data: bytes, error: Exception) -> str:
    try:
        value: Any = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as torn:
        return f"torn or no JSON: {torn}"
    launch = value.get("launch") if isinstance(value, dict) else None
    schema = launch.get("schema") if isinstance(launch, dict) else None
    if isinstance(schema, int) and schema > SCHEMA:
        return _newer(schema)
    return f"no record of this runner: {error}"


def _newer(schema: int) -> str:
    return f"of schema {one_line(schema, 20)}, newer than this runner's {SCHEMA}: update the runner"
