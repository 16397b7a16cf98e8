"""Time commands as whole processes, in ABBA order and relative to `import typer`."""

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

Any_Value = TypeVar("Any_Value")
ROOT = Path(__file__).resolve().parents[1]
IMPORT_TYPER = [sys.executable, "-c", "import typer"]


@dataclass(frozen=True)
class Cost:
    """The cost of one command: wall seconds, and CPU seconds of all its processes."""

    wall_seconds: float
    cpu_seconds: float


def tool(name: str) -> str:
    """Return the path of a command in this environment."""
    return str(Path(sys.executable).with_name(name))


def cost(command: list[str], variables: dict[str, str] | None = None) -> Cost:
    """Run a command with further environment variables; SystemExit with the end of its stderr if it fails."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **(variables or {})}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{command[0]} exited with {done.returncode}: {done.stderr[-500:]}")
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def abba(first: list[str], second: list[str], rounds: int) -> list[tuple[Cost, Cost]]:
    """Time two commands in ABBA order."""
    return in_turn(lambda: cost(first), lambda: cost(second), rounds)


def in_turn(
    first: Callable[[], Any_Value], second: Callable[[], Any_Value], rounds: int
) -> list[tuple[Any_Value, Any_Value]]:
    """Measure two things in the order A B B A, so that drift of the machine's speed favors neither."""
    pairs = []
    for number in range(rounds):
        if number % 2:
            later, earlier = second(), first()
        else:
            earlier, later = first(), second()
        pairs.append((earlier, later))
    return pairs


def median(costs: Iterable[Cost]) -> Cost:
    """Return the medians of several costs."""
    wall, cpu = zip(*((measured.wall_seconds, measured.cpu_seconds) for measured in costs), strict=True)
    return Cost(statistics.median(wall), statistics.median(cpu))


@cache
def typer_cost() -> Cost:
    """Return the cost of `python -c "import typer"`, a unit independent of the machine's speed."""
    return median(cost(IMPORT_TYPER) for _ in range(9))


def in_typers(measured: Cost, typer: Cost) -> str:
    """Format a cost in units of `import typer`, measured at the same time, and in seconds."""
    wall, cpu = measured.wall_seconds / typer.wall_seconds, measured.cpu_seconds / typer.cpu_seconds
    return f"{wall:.1f} ({measured.wall_seconds:.2f} s; CPU {cpu:.1f}, {measured.cpu_seconds:.2f} s)"
