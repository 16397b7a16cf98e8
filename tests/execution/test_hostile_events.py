"""Nothing that a program prints ends `runner run`: events of any shape, lines of any length, a broken display."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from runner.cli.progress import Progress
from runner.execution.observer import guarded
from runner.records.events import Event
from tests.support.held_clock import HeldClock


@pytest.mark.parametrize("odd", [10**400, float("nan"), [1]], ids=str)
def test_progress_is_shown_after_any_events(odd: Any) -> None:
    run: Any = SimpleNamespace(cell="1x1", repeat=1)
    shown = Progress(1, 2, run, [1.0])
    fields = dict.fromkeys(("epoch_num", "epochs", "train_samples", "loss", "train_seconds", "trained_samples"), odd)
    for metadata in ({"epoch_num": 1, "epochs": 2}, fields):
        for key in ("init_start", "epoch_start", "progress", "epoch_stop", "eval_start"):
            shown.take(Event(1.0, key, odd, metadata))
            assert 0 <= shown.done <= 1
            assert len(shown.line()) < 2_000


def test_a_script_without_a_dialect_shows_its_last_line_and_its_time(held_clock: HeldClock) -> None:
    run: Any = SimpleNamespace(cell="1x1", repeat=1)
    shown = Progress(1, 1, run, [])
    assert shown.line() == "starting  0:00"
    for number in range(100):
        shown.take_printed(b"step %d\n" % number)
    held_clock.sleep(80)
    assert shown.line() == "step 99  1:20"


def test_what_cannot_be_shown_is_one_note_and_no_end() -> None:
    broken = Mock()
    broken.event.side_effect = broken.stopping.side_effect = KeyError("no such colour")
    observer = guarded(broken)
    for _ in range(3):
        observer.event(Event(1.0, "progress"))
    observer.stopping("timed_out")
    (note,) = broken.note.call_args.args
    assert broken.note.call_count == 1
    assert note.endswith("KeyError: 'no such colour'")
    broken.note.side_effect = KeyError
    guarded(broken).note("x")
    guarded(broken).event(Event(1.0, "progress"))
