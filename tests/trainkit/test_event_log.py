"""Event lines: whole, bounded, and in order with other output."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainkit.event_log import LINE_BYTES, line

ROOT = Path(__file__).parents[2]
PROCESSES, LINES = 8, 1_500
WRITER = f"""
import sys
from trainkit.event_log import EventLog
rank = int(sys.argv[1])
log = EventLog(rank)
for number in range({LINES}):
    log.point("progress", number, filling="x" * (number % 3000))
    print("a foreign line", rank, number)
    print("half a line", end=" ", flush=number % 7 == 0)
"""


def test_no_line_of_eight_processes_is_torn_or_lost_in_one_pipe() -> None:
    reading, writing = os.pipe()
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(rank)], cwd=ROOT, stdout=writing)
        for rank in range(PROCESSES)
    ]
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        lines = stream.read().split(b"\n")
    assert [writer.wait() for writer in writers] == [0] * PROCESSES
    events = [json.loads(text[9:]) for text in lines if text.startswith(b":::MLLOG ")]
    assert sum(text.count(b":::MLLOG") for text in lines) == len(events) == PROCESSES * LINES
    for rank in range(PROCESSES):
        own = [event for event in events if event["metadata"]["rank"] == rank]
        assert [event["metadata"]["seq"] for event in own] == [event["value"] for event in own] == [*range(LINES)]
        assert all(event["metadata"]["filling"] == "x" * (event["value"] % 3000) for event in own)


def test_a_long_line_is_shortened_with_a_mark() -> None:
    env = {"NCCL_X": "ü" * 9_000, "OMP_X": "1"}
    kept = json.loads(line({"key": "run_start", "metadata": {"env": env, "host": "vm"}})[10:])["metadata"]
    assert (kept["host"], kept["env"]["OMP_X"]) == ("vm", "1")
    assert kept["env"]["NCCL_X"].endswith(" characters)")


json_like = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(max_examples=25)
@given(json_like, st.dictionaries(st.text(), json_like), st.integers(0, 1_500))
def test_any_event_fits_into_a_line(value: object, fields: dict[str, object], size: int) -> None:
    metadata = {**fields, "numbers": list(range(size)), "rank": 0, "seq": 1}
    whole = line({"event_type": "POINT_IN_TIME", "key": "k", "value": value, "metadata": metadata})
    assert len(whole) <= LINE_BYTES
    assert whole.count(b"\n") == 2
    kept = json.loads(whole[len(b"\n:::MLLOG ") :], parse_constant=pytest.fail)
    assert (kept["metadata"]["rank"], kept["metadata"]["seq"]) == (0, 1)


def test_earlier_output_comes_before_an_event() -> None:
    code = "print('before', end=''); from trainkit.event_log import EventLog; EventLog().point('k')"
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    assert out.stdout.startswith(b"before\n:::MLLOG")
