"""Memory stays bounded, whatever is read: a long log, a progress bar without an end."""

import tracemalloc
from itertools import repeat

import pytest

from runner.logs.reading import read_stream

LINE = "[rank%d]: Train Epoch: %d [%d/60000 (%d%%)]\tLoss: 0.%d\n"
TEXT = "".join(LINE % (n % 8, n // 50, n % 50 * 1200, n % 50 * 2, n) for n in range(4_000)).encode()


def peak(data: bytes, times: int) -> int:
    """Return the peak memory in bytes for reading a log that repeats these lines."""
    parts = repeat(data, times)
    tracemalloc.start()
    assert read_stream(lambda _: next(parts, b"")).bytes == times * len(data)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


@pytest.mark.slow
@pytest.mark.parametrize("data", [TEXT, TEXT.replace(b"\n", b"\r")], ids=["lines", "progress"])
def test_memory_does_not_grow_with_the_log(data: bytes) -> None:
    peak(data, 10)  # makes what is cached
    assert peak(data, 200) < peak(data, 50) + 4_000_000
