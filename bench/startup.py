"""`runner --help` against `python -c "import typer"`."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

PAIRS = 15
GOAL = 1.5


def main() -> None:
    """Print the medians and their ratio."""
    runner = str(Path(sys.executable).with_name("runner"))
    commands = {"help": [runner, "--help"], "typer": [sys.executable, "-c", "import typer"]}
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(PAIRS):
        for name, command in commands.items():
            began = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            seconds[name].append(time.perf_counter() - began)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    ratio = medians["help"] / medians["typer"]
    print(
        f"startup: runner --help {medians['help'] * 1000:.0f} ms, import typer {medians['typer'] * 1000:.0f} ms: "
        f"{ratio:.2f} times (goal: at most {GOAL}), medians of {PAIRS}"
    )
