"""Carries a check out, here or at the end that is a host or a container: it needs Python, torch and what was sent."""

import json
import os
import select
import shutil
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runner.core import clock

if TYPE_CHECKING:
    from runner.tools.check.finding import Verdict

MARK = "\nKIT-CHECK-VERDICT "
_REMOVALS = 40


def carry_out(asked: dict[str, Any], root: Path, folder: Path, say: Callable[[str], None]) -> "Verdict":
    """Check a program whose files are below a root; what is seen goes to a folder."""
    from runner.tools.check.checking import Program, check
    from runner.tools.check.resuming import check_resume

    words = {int(count): each for count, each in asked["words"].items()}
    search = tuple(asked["search"])
    program = Program(words.__getitem__, root, search, asked["alone"], asked["device"], asked["settings"])
    if asked["again"] is None:
        return check(program, asked["world"], asked["seconds"], folder, say)
    return check_resume(program, asked["world"], asked["again"], asked["seconds"], folder, say)


def main(folder: str) -> None:
    """Check what was unpacked in a folder, and print the verdict behind a mark."""
    if sys.version_info < (3, 10):  # noqa: UP036 - the Python of the host
        sys.exit(f"a check takes Python 3.10 or newer, and {sys.executable} is {sys.version.split()[0]}")
    place = Path(folder)
    threading.Thread(target=_end_without_reader, args=(place,), daemon=True).start()
    asked = json.loads((place / "request.json").read_text("utf-8"))
    verdict = carry_out(asked, place / "work", place / "seen", lambda _: None)
    answer = {**verdict.values(), "off": verdict.off, "order": verdict.order}
    with open(1, "w", encoding="utf-8", closefd=False) as output:
        output.write(f"{MARK}{json.dumps(answer)}\n")


def _end_without_reader(folder: Path) -> None:
    """End this process, and with it those that it started, once nobody reads what it prints: who asked has gone."""
    output = select.poll()
    output.register(1, 0)  # errors and a hang-up are told without being asked for
    output.poll()
    for _ in range(_REMOVALS):  # what still runs may write a file into it meanwhile
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            break
        clock.sleep(0.05)
    os._exit(1)
