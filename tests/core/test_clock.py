"""The runner's timers take their time in one place, where a test can hold it."""

import re
from pathlib import Path

from runner.core import clock
from runner.logs import pattern
from runner.targets import look
from runner.targets.ssh.session import _MODULES
from tests.support.held_clock import HeldClock

RUNNER = Path(clock.__file__).parents[1]
MAY_IMPORT_TIME = {Path(str(module.__file__)) for module in (clock, pattern, look, *_MODULES)}
"""The clock, who counts processor time, and what runs without the package `runner`, on a host or in a container."""


def test_no_timer_takes_its_time_elsewhere() -> None:
    imports = re.compile(r"^ *(import|from) time\b", re.MULTILINE)
    found = {path for path in RUNNER.rglob("*.py") if imports.search(path.read_text("utf-8"))}
    assert Path(clock.__file__) in found
    assert found <= MAY_IMPORT_TIME, "take it from runner.core.clock"


def test_a_held_clock_moves_only_when_it_is_moved_and_nobody_waits_for_it(held_clock: HeldClock) -> None:
    began, day = clock.monotonic(), clock.now()
    assert clock.monotonic() == began
    held_clock.advance(2.5)
    clock.sleep(86_400)
    assert (clock.monotonic() - began, clock.now() - day) == (86_402.5, 86_402.5)
