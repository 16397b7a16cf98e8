"""Two nodes against what one does: over slow links, by what is exchanged; and unlike nodes, by how a batch is shared.

Each node is a container. All cells take turns, round by round, so that a machine that slows down favours none of them.
With all cells and three rounds that takes about two and a half hours on two cores, in which nothing else may run there.

By hand:  PYTHONPATH=. python -m bench.nodes [--results results] [--rounds 3] [--only links|unlike]
"""

import json
import statistics
import subprocess
import tempfile
from argparse import ArgumentParser
from collections import defaultdict
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

from bench.timing import ROOT, tool

ROUNDS = 3
FAST, SLOW = "1", "0.5"
"""Cores of the unlike nodes."""


class Cell(NamedTuple):
    """One row: its words on the command line, and the goal of its ratio, if it has one."""

    name: str
    words: tuple[str, ...]
    goal: float | None = None


PLAIN = ("--only", "communication=ddp")
ONE = Cell("one process", ("--layout", "1x1", *PLAIN))
LINKS = [
    Cell(
        f"two nodes, {link}, {communication}",
        ("--layout", "2x1", "--only", f"communication={communication}", "--with", f"link={link}"),
        goal if communication == "local-sgd" else None,
    )
    for link, goal in (("1gbit", 0.9), ("100mbit", None))
    for communication in ("ddp", "bf16", "local-sgd")
]
ALONE = [Cell(f"{cores} cores alone", ("--layout", "1x1", *PLAIN, "--with", f"cpus={cores}")) for cores in (FAST, SLOW)]
UNLIKE = [
    Cell(
        f"both, {communication}, balance {balance}",
        (
            *("--layout", "2x1", "--only", f"communication={communication}"),
            *("--set", f"balance={balance}", "--with", f"cpus={FAST},{SLOW}"),
        ),
        goal,
    )
    for communication, balance, goal in (
        ("ddp", "off", None),
        ("ddp", "measured", None),
        ("local-sgd", "measured", 0.9),
    )
]


def main(words: Sequence[str] = ()) -> None:
    """Print the samples per second of two nodes as parts of what one does twice, or both do alone."""
    parser = ArgumentParser(prog="bench.nodes", description=__doc__)
    parser.add_argument("--results", type=Path, help="keep the records there")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--only", choices=["links", "unlike"])
    args = parser.parse_args(words)
    if subprocess.run(["docker", "version"], capture_output=True, check=False).returncode:
        print("nodes: no Docker Engine answers")
        return
    if not (ROOT / "data" / "bert").is_dir():
        print("nodes: no sentences and model: runner prepare bert")
        return
    with nullcontext(args.results) if args.results else tempfile.TemporaryDirectory() as folder:
        results = Path(folder).absolute()
        if args.only != "unlike":
            speeds = in_turns([ONE, *LINKS], results, args.rounds)
            show("twice what one process does", LINKS, speeds, 2 * statistics.median(speeds[ONE.name]))
        if args.only != "links":
            speeds = in_turns([*ALONE, *UNLIKE], results, args.rounds)
            both = sum(statistics.median(speeds[row.name]) for row in ALONE)
            show("what both do alone", UNLIKE, speeds, both)


def in_turns(cells: list[Cell], results: Path, rounds: int) -> dict[str, list[float]]:
    """Run all cells, one round after the other; return the samples per second of each."""
    speeds = defaultdict(list)
    for _ in range(rounds):
        for cell in cells:
            speeds[cell.name].append(samples_per_second(cell, results))
    return speeds


def samples_per_second(cell: Cell, results: Path) -> float:
    """Train for one epoch in containers; the samples of all processes per second of training."""
    before = set(results.glob("*/*/run.json"))
    command = [tool("runner"), "run", "bert-slow-link", *cell.words, "--on", "compose", "--device", "cpu"]
    command += ["--set", "epochs=1", "--repeat", "1", "--results", str(results)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    (new,) = set(results.glob("*/*/run.json")) - before
    return float(json.loads(new.read_bytes())["metrics"]["samples_per_second"])


def show(limit: str, cells: list[Cell], speeds: dict[str, list[float]], most: float) -> None:
    """Print each cell's speed as a part of the limit, with its goal."""
    for cell in cells:
        own = speeds[cell.name]
        points = ", ".join(f"{speed / most:.2f}" for speed in own)
        goal = f" (goal: at least {cell.goal})" if cell.goal else ""
        print(f"nodes: {cell.name}: {statistics.median(own) / most:.2f} of {limit}{goal}, n = {len(own)}: {points}")


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
