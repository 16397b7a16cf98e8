"""Lines, records, logs and layouts of any size: they are read within fixed limits of time and memory."""

import io
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runner.core.layout import Layout
from runner.records import run_events
from runner.records.events import read_events
from runner.records.finalize import reparse
from runner.records.folder import RunFolder, begin
from runner.records.parse import collect
from runner.records.schema import NodeExit, Outcome
from runner.report.reading import read_results
from tests.support.patience import patient, quick
from tests.support.records import Make


class Endless(io.RawIOBase):
    """A file of one byte, very often, between a beginning and an end."""

    def __init__(self, start: bytes, blocks: int, end: bytes) -> None:
        self.parts = filter(None, [start, *[b"x" * 65_536] * blocks, end])
        self.rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.rest = self.rest or next(self.parts, b"")
        taken = self.rest[: len(buffer)]
        buffer[: len(taken)] = taken
        self.rest = self.rest[len(taken) :]
        return len(taken)


@pytest.mark.parametrize("start", [b"", b':::MLLOG {"time_ms": 1, "key": "'], ids=["foreign", "event"])
def test_a_line_of_hundreds_of_megabytes_is_dropped_and_said_in_bounded_memory(start: bytes) -> None:
    end = b'\n:::MLLOG {"time_ms": 1, "key": "last"}\n:::MLLOG {torn\n'
    tracemalloc.start()
    blocks = list(read_events(io.BufferedReader(Endless(start, 3_000, end))))
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()
    assert [event.key for block in blocks for event in block.events] == ["last"]
    broken = [(line.line, line.reason) for block in blocks for line in block.malformed]
    assert broken[-1][0] == 3
    assert len(broken) == (2 if start else 1)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_events(results: Path, make: Make) -> None:
    line = b':::MLLOG {"time_ms": 1, "key": "progress", "value": 5, "metadata": {"rank": 0}}\n'
    folder = begin(results, make.launch(), "", "")
    (folder.raw / "node0-rank0.stdout").write_bytes(line * 100_000 + b":::MLLOG {torn\n" * 100_000)
    tracemalloc.start()
    record = collect(folder, folder.launch(), None)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()
    assert record.events == {"seen": 100_000, "expected": 0, "malformed": 100_000}


@pytest.mark.slow
def test_what_a_record_keeps_of_one_file_is_bounded(results: Path, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_events, "MOST_BYTES", 200_000)
    folder = begin(results, make.launch(), "", "")
    lists = "[" + ",".join(["[]"] * 1_000) + "]"
    printed = "".join(
        f':::MLLOG {{"time_ms": 1, "key": "{key}", "value": 1, "metadata": {{"epoch_num": {number}, "x": {lists}}}}}\n'
        for number in range(300)
        for key in ("epoch_stop", "eval_accuracy")
    )
    (folder.raw / "node0-rank0.stdout").write_text(printed)
    record = collect(folder, folder.launch(), None)
    assert any("more facts" in doubt for doubt in record.doubts)
    assert len(msgspec.json.encode(record)) < 700_000


AGENT_LOGS = [
    "time :" * 20_000,
    "time" + " " * 200_000 + ":",
    ("time : x\n host" + " " * 50_000) * 4,
    "[" * 60_000 + "]:1: " * 10_000,
    "peer " * 40_000,
    ("time : x\nhost : y\nrank : 0 (local_rank: 0)\nexitcode : 1\n") * 4_000,
]


def test_the_agent_s_log_is_searched_in_linear_time(results: Path, make: Make) -> None:
    for text in AGENT_LOGS:
        folder = begin(results, make.launch(), "", "")
        (folder.raw / "node0-agent.log").write_text(text)
        (folder.raw / "node0-rank0.stderr").write_text(text)
        with quick(patient(2)):
            collect(folder, folder.launch(), Outcome(ended="", wall_seconds=1.0, exits=[NodeExit(0, 1)]))


@pytest.mark.slow
def test_a_layout_of_65_536_nodes_is_collected_in_seconds(results: Path, make: Make) -> None:
    nodes = 65_536
    folder = begin(results, make.launch(layout=f"{nodes}x1", by_hand=True), "", "")
    (folder.raw / "node9-rank9.stdout").write_bytes(make.lines(9, 1.0))
    with quick(10):
        record = reparse(folder.path)
    assert len(record.ranks) == nodes
    assert len(record.reason) < 200
    assert RunFolder(folder.path).read().status == record.status == "killed"
    assert len(Layout.parse(record.launch.layout).processes) == nodes
    assert len(read_results(results).runs) == 1
