"""Commands timed as whole processes: in ABBA order, with an interval, and in units of `import typer`."""

import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

Any_Value = TypeVar("Any_Value")
ROOT = Path(__file__).resolve().parents[1]
IMPORT_TYPER = [sys.executable, "-c", "import typer"]
# Every process of a rank writes its own CPU seconds on its way out; Python imports this file at its start.
_COUNT_RANKS = """
import atexit, os, time
if "LOCAL_RANK" in os.environ and "KIT_BENCH_RANKS" in os.environ:
    def keep(folder=os.environ["KIT_BENCH_RANKS"], number=os.getpid()):
        with open(f"{folder}/{number}", "w") as file:
            file.write(str(time.process_time()))
    atexit.register(keep)
"""


@dataclass(frozen=True)
class Cost:
    """What one command took: wall seconds, and the CPU seconds of all its processes but the training ones."""

    wall_seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class Interval:
    """A mean with its 95% interval (t on the paired differences)."""

    mean: float
    low: float
    high: float

    def text(self, unit: str, digits: int = 2) -> str:
        """Write it as `+0.21 s [+0.15, +0.27]`."""
        return f"{self.mean:+.{digits}f}{unit} [{self.low:+.{digits}f}, {self.high:+.{digits}f}]"


def tool(name: str) -> str:
    """Return the path of a command of this environment."""
    return str(Path(sys.executable).with_name(name))


def cost(command: list[str], variables: dict[str, str] | None = None) -> Cost:
    """Run a command to its end, with further environment variables; SystemExit with its last words if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = Path(folder, "ranks")
        ranks.mkdir()
        Path(folder, "sitecustomize.py").write_text(_COUNT_RANKS)
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "KIT_BENCH_RANKS": str(ranks),
            "PYTHONPATH": os.pathsep.join([folder, str(ROOT)]),
            **(variables or {}),
        }
        log = Path(folder, "log")
        with log.open("wb") as output:
            began = time.perf_counter()
            with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output) as process:
                _, status, usage = os.wait4(process.pid, 0)
                wall = time.perf_counter() - began
                process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(
                f"{command[0]} exited with {process.returncode}: {log.read_text('utf-8', 'replace')[-500:]}"
            )
        trained = sum(float(path.read_text()) for path in ranks.iterdir())
        return Cost(wall, usage.ru_utime + usage.ru_stime - trained)


def abba(first: list[str], second: list[str], rounds: int) -> list[tuple[Cost, Cost]]:
    """Time two commands in turn."""
    return in_turn(lambda: cost(first), lambda: cost(second), rounds)


def in_turn(
    first: Callable[[], Any_Value], second: Callable[[], Any_Value], rounds: int
) -> list[tuple[Any_Value, Any_Value]]:
    """Measure two things in the order A B B A, so that a drift of the machine's speed favours neither."""
    pairs = []
    for number in range(rounds):
        if number % 2:
            later, earlier = second(), first()
        else:
            earlier, later = first(), second()
        pairs.append((earlier, later))
    return pairs


def timed(words: list[str], **variables: str) -> float:
    """Run a command to its end, with further environment variables; return the seconds."""
    began = time.monotonic()
    subprocess.run(words, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, check=True)
    return time.monotonic() - began


def print_added(target: str, bare: str, pairs: list[tuple[float, float]], goal: float) -> None:
    """Print how many seconds the runner adds to what it is compared with: the median, and each pair's."""
    added = [ours - plain for ours, plain in pairs]
    points = ", ".join(f"{seconds:+.1f}" for seconds in added)
    plain = statistics.median(seconds for _, seconds in pairs)
    print(
        f"{target}: runner run --on {target} adds {statistics.median(added):+.1f} s to {plain:.1f} s of {bare}"
        f" (goal: at most {goal:g} s), median of {len(pairs)} pairs: {points}"
    )


def interval(differences: list[float]) -> Interval:
    """Return the mean of paired differences and its 95% interval, Student's t."""
    from scipy.special import stdtrit  # half a second

    mean = statistics.fmean(differences)
    half = stdtrit(len(differences) - 1, 0.975) * statistics.stdev(differences) / math.sqrt(len(differences))
    return Interval(mean, mean - half, mean + half)


def median(costs: Iterable[Cost]) -> Cost:
    """Return the medians of several costs."""
    wall, cpu = zip(*((measured.wall_seconds, measured.cpu_seconds) for measured in costs), strict=True)
    return Cost(statistics.median(wall), statistics.median(cpu))


@cache
def typer_cost() -> Cost:
    """Return what `python -c "import typer"` takes: a unit that machines of any speed share."""
    return median(cost(IMPORT_TYPER) for _ in range(9))


def in_typers(measured: Cost, typer: Cost) -> str:
    """Write a cost in units of `import typer`, which was measured beside it, and in seconds."""
    wall, cpu = measured.wall_seconds / typer.wall_seconds, measured.cpu_seconds / typer.cpu_seconds
    return f"{wall:.1f} ({measured.wall_seconds:.2f} s; CPU {cpu:.1f}, {measured.cpu_seconds:.2f} s)"
