"""Workers' files are followed while they are written, in bounded memory, and nothing else is opened in their place."""

import os
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.records.folder import RunFolder
from runner.targets.base import Line, Note
from runner.targets.worker_logs import GRACE_SECONDS, LONGEST_LINE, BoundedLines, Tail, WorkerLogs
from tests.support.held_clock import HeldClock


def worker_file(node: Path, local_rank: int = 0) -> Path:
    path = node / "run_x" / "attempt_0" / str(local_rank) / "stdout.log"
    path.parent.mkdir(parents=True)
    return path


def texts(tail: Tail, *, to_end: bool = False) -> list[bytes]:
    return [line.text for line in tail.read(to_end=to_end) if line]


@given(st.lists(st.binary(max_size=30), max_size=20), st.integers(1, 12))
def test_lines_come_whole_or_cut_however_the_blocks_fall(blocks: list[bytes], longest: int) -> None:
    lines = BoundedLines(longest)
    got = [line for block in blocks for line in lines.feed(block)]
    *whole, last = b"".join(blocks).split(b"\n")
    assert got == [line[:longest] for line in whole]
    assert lines.finish() == ([last[:longest]] if last else [])
    assert lines.finish() == []
    assert lines.cut == sum(len(line) > longest for line in [*whole, last])


def test_a_line_of_any_length_is_read_in_bounded_memory(tmp_path: Path) -> None:
    path = worker_file(tmp_path)
    with path.open("wb") as file:
        file.write(b"first\n")
        file.truncate(200_000_000)  # a file with a hole: a line of 200 MB without a newline that takes no disk
    tail = Tail(tmp_path, 0, 0)
    tracemalloc.start()
    began = time.process_time()
    try:
        found = texts(tail, to_end=True)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == [b"first", bytes(LONGEST_LINE)]
    assert tail.cut == 1
    assert peak < 10_000_000
    assert time.process_time() - began < 60


def test_what_was_cut_is_said(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.node(0).mkdir(parents=True)
    worker_file(folder.node(0), 1).write_bytes(b"x" * 100_000 + b"\nend\n")
    found = [line for line in WorkerLogs(folder, {0: 2}).rest() if line]
    assert found[:2] == [Line(0, 1, b"x" * LONGEST_LINE), Line(0, 1, b"end")]
    assert found[2:] == [
        Note(
            "process 1 of node 0 printed 1 line longer than 65,536 bytes: only the beginning was looked at, "
            "the raw file has all of it"
        )
    ]


def test_half_a_line_waits_for_its_end(tmp_path: Path) -> None:
    path, tail = worker_file(tmp_path), Tail(tmp_path, 0, 0)
    for written, seen in ((b"one\ntw", [b"one"]), (b"o\n\nthr", [b"two"])):
        with path.open("ab") as file:
            file.write(written)
        assert texts(tail) == seen
    assert texts(tail, to_end=True) == [b"thr"]


@pytest.mark.parametrize("kind", ["link", "fifo", "linked folder"])
def test_a_link_or_a_fifo_in_place_of_a_worker_s_file_is_not_opened(tmp_path: Path, kind: str) -> None:
    secret = tmp_path / "elsewhere" / "stdout.log"
    secret.parent.mkdir()
    secret.write_bytes(b"secret\n")
    node = tmp_path / "node0"
    path = worker_file(node)
    if kind == "link":
        path.symlink_to(secret)
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.parent.rmdir()
        path.parent.symlink_to(secret.parent)
    assert texts(Tail(node, 0, 0), to_end=True) == []


class Fake:
    """A launcher that ends after some polls, while the clock goes on."""

    def __init__(self, clock: HeldClock, polls: float, code: int = 0) -> None:
        self.clock, self.polls, self.code = clock, polls, code

    @property
    def ended(self) -> bool:
        self.polls -= 1
        return self.polls < 0

    @property
    def failed(self) -> bool:
        return self.polls < 0 and self.code != 0

    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)


def test_if_a_node_fails_the_others_get_a_grace_and_are_then_stopped(tmp_path: Path, held_clock: HeldClock) -> None:
    hangs, stopped = Fake(held_clock, float("inf")), []

    def stop() -> None:
        stopped.append(held_clock.monotonic())
        hangs.polls = 0

    began = held_clock.monotonic()
    launchers = [Fake(held_clock, 2, code=1), hangs]
    assert set(WorkerLogs(RunFolder(tmp_path), {0: 1}).follow(launchers, stop)) == {None}
    assert [when - began for when in stopped] == [pytest.approx(GRACE_SECONDS, abs=1)]
