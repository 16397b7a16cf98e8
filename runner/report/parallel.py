"""Work on many things in several processes, each of which gets a share and hands back one answer."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_PROCESSES = 8
_READ_BYTES = 1_048_576
_Item = TypeVar("_Item")


def in_shares(work: Callable[[list[_Item]], bytes], items: list[_Item], least: int) -> list[bytes]:
    """Return the answers for all items, in their order, one for each share of at least so many of them.

    A process that does not come back with an answer, for example because the machine had no memory for it, is no
    failure: its share is worked on here.
    """
    cores = len(os.sched_getaffinity(0)) if threading.active_count() == 1 else 1  # a process with threads cannot fork
    shares = max(1, min(cores, MOST_PROCESSES, len(items) // least))
    ends = [len(items) * share // shares for share in range(shares + 1)]
    first, *others = [items[begin:end] for begin, end in pairwise(ends)]
    begun = [_begin(work, part) for part in others]
    answers = [work(first)]
    for part, child in zip(others, begun, strict=True):
        answer = _answer(*child) if child else None
        answers.append(work(part) if answer is None else answer)
    return answers


def _begin(work: Callable[[list[_Item]], bytes], part: list[_Item]) -> tuple[int, int] | None:
    """Start a process; return its number and where its answer is read, or None if there is no room for one."""
    reader, writer = os.pipe()
    try:
        process = os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        return None
    if process:
        os.close(writer)
        return process, reader
    try:  # from here on in the child, which ends here whatever happens
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.close(reader)
        rest = memoryview(work(part))
        while rest:
            rest = rest[os.write(writer, rest) :]
        os._exit(0)
    finally:
        os._exit(1)


def _answer(process: int, reader: int) -> bytes | None:
    parts = []
    while part := os.read(reader, _READ_BYTES):
        parts.append(part)
    os.close(reader)
    with suppress(ChildProcessError):
        _, status = os.waitpid(process, 0)
        return b"".join(parts) if status == 0 else None
    return None
