"""Every timer of the runner reads `runner.core.clock`, so that tests can stop it."""

import re
from pathlib import Path

from runner.core import clock
from runner.logs import pattern
from runner.targets import look
from runner.targets.ssh.openssh import MODULES

RUNNER = Path(clock.__file__).parents[1]
MAY_IMPORT_TIME = {Path(str(module.__file__)) for module in (clock, pattern, look, *MODULES)}
"""The clock, a timer of CPU time, and modules that run on hosts and in containers without the package `runner`."""


def test_no_timer_takes_its_time_elsewhere() -> None:
    imports = re.compile(r"^ *(import|from) time\b", re.MULTILINE)
    sources = (path for path in RUNNER.rglob("*.py") if "hooks" not in path.parts)  # hooks run in training programs
    assert {path for path in sources if imports.search(path.read_text("utf-8"))} <= MAY_IMPORT_TIME
