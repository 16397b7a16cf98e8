"""Run a check on another host or in a container, with only Python, torch and the files that were sent."""

import json
import os
import select
import shutil
import sys
import threading
from dataclasses import asdict
from pathlib import Path

from runner.core import clock

MARK = "\nKIT-CHECK-VERDICT "
_REMOVALS = 40


def main(folder: str) -> None:
    """Check the program in an unpacked folder, and print the verdict after `MARK`."""
    if sys.version_info < (3, 10):  # noqa: UP036 - the host's Python
        sys.exit(f"a check needs Python 3.10 or newer, but {sys.executable} is {sys.version.split()[0]}")
    from runner.tools.check.checking import check
    from runner.tools.check.processes import Program

    place = Path(folder)
    threading.Thread(target=_end_without_reader, args=(place,), daemon=True).start()
    asked = json.loads((place / "request.json").read_text("utf-8"))
    program = Program(**{**asked["program"], "root": place / "work"})
    verdict = check(program, asked["world"], asked["seconds"], place / "seen", lambda _: None, asked["again"])
    with open(1, "w", encoding="utf-8", closefd=False) as output:
        output.write(f"{MARK}{json.dumps(asdict(verdict))}\n")


def _end_without_reader(folder: Path) -> None:
    """Wait until the requester no longer reads the output. Then remove the folder, and end the check's processes."""
    output = select.poll()
    output.register(1, 0)  # errors and hang-ups are always reported
    output.poll()
    for _ in range(_REMOVALS):  # processes may still write files into the folder
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            break
        clock.sleep(0.05)
    os._exit(1)
