"""What a program prints never ends `runner run`: live events of any shape, lines of any length, a screen that fails."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.cli.progress import Progress
from runner.execution.observer import guarded
from runner.records.events import Event
from tests.support.held_clock import HeldClock
from tests.support.launches import BEGINNING, END
from tests.support.projects import Project

HUGE = "9" * 400
LINES = [
    f'{{"time_ms": 1, "key": "tracked_stats", "value": {{"train_seconds": {HUGE}}}, "metadata": {{"rank": 0}}}}',
    f'{{"time_ms": 1, "key": "tracked_stats", "value": {{"final_accuracy": {HUGE}}}, "metadata": {{"rank": 0}}}}',
    f'{{"time_ms": 1, "key": "load", "value": {{"cpu": {HUGE}}}, "metadata": {{"rank": 0, "gpu_bytes": {HUGE}}}}}',
    f'{{"time_ms": 1, "key": "epoch_start", "metadata": {{"rank": 0, "epoch_num": {HUGE}, "epochs": {HUGE}}}}}',
    '{"time_ms": 1, "key": "epoch_start", "metadata": {"rank": 0, "epoch_num": 1, "epochs": 3}}',
    f'{{"time_ms": 1, "key": "progress", "value": {HUGE}, "metadata": {{"rank": 0, "train_samples": {HUGE}}}}}',
    '{"time_ms": 1, "key": "progress", "value": 1e308, "metadata": {"rank": 0, "train_samples": 1e-308}}',
    f'{{"time_ms": 1, "key": "epoch_stop", "metadata": {{"rank": 0, "loss": {HUGE}, "train_seconds": {HUGE}}}}}',
    f'{{"time_ms": {HUGE}, "key": "train_stop", "metadata": {{"rank": {HUGE}, "seq": {HUGE}, "seconds": {HUGE}}}}}',
    f'{{"time_ms": 1, "key": "progress", "value": {"9" * 5_000}, "metadata": {{"rank": 0}}}}',
    f'{{"time_ms": 1, "key": "progress", "value": {"[" * 9_000}{"]" * 9_000}, "metadata": {{"rank": 0}}}}',
]
PRINT = """
for line in LINES:
    print(":::MLLOG " + line, flush=True)
print("x" * 5_000_000)
print(":::MLLOG " + "x" * 5_000_000)
time.sleep(1)
"""


@pytest.mark.slow
def test_no_event_and_no_line_ends_the_command_and_further_repeats_go_on(project: Project) -> None:
    assert all(json.loads(line)["key"] for line in LINES[:9])
    project.program("toys.ok", BEGINNING + f"LINES = {LINES!r}" + PRINT + END)
    project.define(matrix={"layout": ["1x1", "1x2"]}, repeat=1)
    done = project.runner("run", "tiny")
    assert done.code == 1, done.snapshot
    assert [project.record(run)["status"] for run in project.runs()] == ["incomplete", "incomplete"]
    assert "defect" not in done.stderr
    assert "0 of 2 runs completed" in done.stderr


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.integers(10**300, 10**400) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
FIELDS = ("epoch_num", "epochs", "train_samples", "loss", "train_seconds", "trained_samples", "rank")
EVENTS = st.builds(
    Event,
    time_ms=st.floats(),
    key=st.sampled_from(["epoch_start", "epoch_stop", "progress", "eval_start", "init_start"]),
    value=ANY,
    metadata=st.dictionaries(st.sampled_from(FIELDS), ANY | st.integers(0, 3)),
)


@settings(max_examples=50)
@given(st.lists(EVENTS, max_size=6))
def test_progress_is_shown_after_any_events(events: list[Event]) -> None:
    run: Any = SimpleNamespace(cell="1x1", repeat=1)
    shown = Progress(1, 2, run, [1.0])
    for event in events:
        shown.take(event)
        assert 0 <= shown.done <= 1
        assert len(shown.line()) < 2_000


def test_a_script_without_a_dialect_shows_its_last_line_and_how_fast_it_prints(held_clock: HeldClock) -> None:
    run: Any = SimpleNamespace(cell="1x1", repeat=1)
    shown = Progress(1, 1, run, [])
    assert shown.line() == "starting"
    for number in range(100):
        shown.take_printed(b"step %d\n" % number)
    held_clock.sleep(80)
    assert shown.line() == "step 99  100 lines, 1.2/s  1:20"


class Broken:
    """An observer that fails at everything but notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def fail(self, *_: object) -> None:
        msg = "no such colour"
        raise KeyError(msg)

    begin = event = stopping = end = left_out = fail


def test_what_cannot_be_shown_is_one_note_and_no_end(make: Any) -> None:
    broken = Broken()
    observer = guarded(broken)
    run: Any = None
    observer.begin(1, 1, run, Path())
    for _ in range(3):
        observer.event(Event(1.0, "progress"))
    observer.stopping("timed_out")
    observer.end(run, make.launch(), Path())
    observer.left_out(run)
    assert broken.notes == ["something could not be shown: KeyError: 'no such colour'"]
    broken.note = broken.fail  # type: ignore[method-assign]
    guarded(broken).note("x")
    guarded(broken).event(Event(1.0, "progress"))
