"""`runner --help` in units of `import typer`."""

from __future__ import annotations

import statistics
import sys

from bench.timing import abba, tool

PAIRS = 15
GOAL = 1.5


def main() -> None:
    """Print the medians and their ratio."""
    pairs = abba([sys.executable, "-c", "import typer"], [tool("runner"), "--help"], PAIRS)
    typer = statistics.median(one.wall_seconds for one, _ in pairs)
    ours = statistics.median(one.wall_seconds for _, one in pairs)
    print(
        f"startup: runner --help {ours * 1000:.0f} ms, import typer {typer * 1000:.0f} ms: "
        f"{ours / typer:.2f} times (goal: at most {GOAL}), medians of {PAIRS} ABBA pairs"
    )
