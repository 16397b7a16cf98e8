"""Memory stays bounded, whatever is read: a long log, a progress bar without an end."""

import tracemalloc

import pytest

from runner.logs.reading import read_stream

LINE = "[rank%d]: Train Epoch: %d [%d/60000 (%d%%)]\tLoss: 0.%d\n"
TEXT = "".join(LINE % (n % 8, n // 938, n % 938 * 64, n % 938 * 100 // 938, n) for n in range(100_000)).encode()


def peak(data: bytes, megabytes: int) -> int:
    """Return how much memory it takes to read a log, which repeats these lines, beside the lines themselves."""
    sent = 0

    def read(most: int) -> bytes:
        nonlocal sent
        begin = sent % (len(data) - most)
        sent += most
        return data[begin : begin + most] if sent <= megabytes * 1_000_000 else b""

    tracemalloc.start()
    assert read_stream(read).bytes > (megabytes - 1) * 1_000_000
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


@pytest.mark.slow
@pytest.mark.parametrize("data", [TEXT, TEXT.replace(b"\n", b"\r")], ids=["lines", "progress"])
def test_memory_does_not_grow_with_the_log(data: bytes) -> None:
    peak(data, 2)  # what is made once
    assert peak(data, 40) < peak(data, 10) + 4_000_000
