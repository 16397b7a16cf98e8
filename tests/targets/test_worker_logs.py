"""Workers' files are followed in bounded memory while they grow."""

import math
import tracemalloc
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.records.folder import RunFolder
from runner.records.schema import NodeExit
from runner.targets.base import FollowedNode
from runner.targets.worker_logs import GRACE_SECONDS, LONGEST_LINE, BoundedLines, Tail, WorkersHandle
from tests.support.held_clock import HeldClock


@given(st.lists(st.binary(max_size=30), max_size=20), st.integers(1, 12))
def test_lines_come_whole_or_cut_however_the_blocks_fall(blocks: list[bytes], longest: int) -> None:
    lines = BoundedLines(longest)
    got = [line for block in blocks for line in lines.feed(block)]
    *whole, last = b"".join(blocks).replace(b"\r", b"\n").split(b"\n")
    assert got == [line[:longest] for line in whole]
    assert lines.finish() == ([last[:longest]] if last else [])
    assert lines.finish() == []


def test_a_line_of_any_length_is_read_in_bounded_memory(tmp_path: Path) -> None:
    folder = tmp_path / "run_x/attempt_0/0"
    folder.mkdir(parents=True)
    with (folder / "stdout.log").open("wb") as file:
        file.write(b"first\n")
        file.truncate(200_000_000)  # a hole, which takes no disk, as a line of 200 MB
    tracemalloc.start()
    found = [line.text for line in Tail(tmp_path, 0, 0).read(to_end=True) if line]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == [b"first", bytes(LONGEST_LINE)]
    assert peak < 10_000_000


class Fake(FollowedNode):
    """A node that ends after some polls, each of which advances the clock."""

    def __init__(self, number: int, clock: HeldClock, polls: float, code: int = 0) -> None:
        super().__init__(number)
        self.clock, self.polls, self.code = clock, polls, code

    @property
    def exit(self) -> NodeExit | None:
        return NodeExit(self.number, self.code) if self.polls < 0 else None

    def wait(self, seconds: float) -> None:
        self.polls -= 1
        self.clock.advance(seconds)


class FakeRun(WorkersHandle):
    """A run whose last node hangs until stopped."""

    nodes: Sequence[Fake]

    def _start(self) -> Iterable[None]:
        return ()

    _finish = _start

    def stop(self) -> None:
        self.stopped_at = self.nodes[-1].clock.monotonic()
        self.nodes[-1].polls = -1


def test_if_a_node_fails_the_others_get_a_grace_and_are_then_stopped(tmp_path: Path, held_clock: HeldClock) -> None:
    began = held_clock.monotonic()
    run = FakeRun(RunFolder(tmp_path), [Fake(0, held_clock, 2, code=1), Fake(1, held_clock, math.inf)], [1, 1])
    assert set(run.lines()) == {None}
    assert run.stopped_at - began == pytest.approx(GRACE_SECONDS, abs=1)
