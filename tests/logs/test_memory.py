"""Time and memory stay bounded, whatever is read: a long log, a progress bar without an end."""

import json
import subprocess
import sys

import pytest

CHILD = """
import json, resource, sys, time
from runner.logs.reading import read_stream

kind, size = sys.argv[1], int(sys.argv[2])
LINE = b"[rank%d]: Train Epoch: %d [%d/60000 (%d%%)]\\tLoss: 0.%d\\n"
lines = (LINE % (n % 8, n // 938, n % 938 * 64, n % 938 * 100 // 938, n) for n in range(100_000))
data = b"".join(lines)
if kind == "progress":
    data = data.replace(b"\\n", b"\\r")
sent = 0

def read(most):
    global sent
    begin = sent % (len(data) - most)
    sent += most
    return data[begin : begin + most] if sent <= size else b""

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

began = time.process_time()
reading = read_stream(read)
seconds = time.process_time() - began
print(json.dumps({"peak": peak(), "bytes": reading.bytes, "seconds": seconds, "notes": reading.notes}))
"""


def read(kind: str, megabytes: int) -> dict[str, object]:
    command = [sys.executable, "-c", CHILD, kind, str(megabytes * 1_000_000)]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "megabytes"), [("lines", 300), ("progress", 60)])
def test_memory_does_not_grow_with_the_log(kind: str, megabytes: int) -> None:
    short, long = read(kind, 10), read(kind, megabytes)
    assert long["bytes"] > (megabytes - 1) * 1_000_000  # type: ignore[operator]
    assert long["peak"] - short["peak"] < 24  # type: ignore[operator]
    assert long["seconds"] < 60  # type: ignore[operator]
