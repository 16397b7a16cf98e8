"""Bytes of a run's folder -> Record, Launch, Outcome: a ValueError says in one line what is wrong with them."""

from functools import cache
from threading import Lock
from typing import Any, TypeVar

import msgspec

from runner.records.schema import SCHEMA, Launch, Record

LARGEST_RECORD = 64_000_000
_making = Lock()
_Kind = TypeVar("_Kind")


def read_record(data: bytes) -> Record:
    """Decode `run.json`."""
    return decode(data, Record)


def read_launch(data: bytes) -> Launch:
    """Decode `request/launch.json`."""
    return decode(data, Launch)


def decode(data: bytes, kind: type[_Kind]) -> _Kind:
    """Decode JSON into a structure; ValueError if it is torn, of another shape, or of a newer schema."""
    with _making:  # msgspec 0.22 crashes if two threads meet a type for the first time
        decoder = _decoder(kind)  # type: ignore[arg-type]  # a type is hashable
    try:
        found: _Kind = decoder.decode(data)
    except msgspec.ValidationError as error:
        newer = f"of a schema newer than this runner's {SCHEMA}: update the runner"
        why = newer if str(error).endswith("schema`") else f"not a {kind.__name__} of this version: {error}"
        raise ValueError(why) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"broken or cut off: {error}") from None
    return found


@cache
def _decoder(kind: Any) -> Any:
    return msgspec.json.Decoder(kind)
