"""Trainings that differ in one thing -> by how much their losses and accuracies differ."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.timing import ROOT

ARGS = {"dataset": "digits", "model": "conv2-fc500", "optimizer": "adam", "lr": "1e-3", "batch-size": "128"}
"""Those of the quickstart with smaller batches, so that an epoch has 12 steps."""
SECONDS = 600


@dataclass(frozen=True)
class Change:
    """One thing that is changed against the base; `name` is what the page calls it.

    `python` is another Python, with another torch.
    """

    name: str
    how: str = "none"
    processes: int = 1
    args: dict[str, str] = field(default_factory=dict)
    python: str = sys.executable


@dataclass(frozen=True)
class Curve:
    """A training: the mean loss of every step, the accuracy at the end and of how many samples, and the parameters."""

    losses: list[float]
    accuracy: float
    samples: int
    parameters: str
    torch: str

    @property
    def correct(self) -> int:
        """How many test samples it gets right."""
        return round(self.accuracy * self.samples)


@dataclass(frozen=True)
class Difference:
    """Two trainings compared; `first` is the first step whose loss differs, counted from 1, None if none does."""

    first: int | None
    first_difference: float
    largest: float
    at: int | None
    last: float


def train(change: Change, epochs: int) -> Curve:
    """Run one training to its end; SystemExit with its last words if it fails."""
    args = {**ARGS, "epochs": str(epochs), "seed": "1", "threads": "1", "peak-milliseconds": "0", **change.args}
    words = [word for key, value in args.items() for word in (f"--{key}", value)]
    with tempfile.TemporaryDirectory() as folder:
        launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(change.processes)]
        command = [change.python, *launch, "-m", "bench.numbers.training", folder, change.how, *words]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
        command += ["--device", "cpu"]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        told = [json.loads(path.read_text("utf-8")) for path in sorted(Path(folder).glob("rank*.json"))]
    if done.returncode or len(told) != change.processes:
        sys.exit(f"error: {change.name}: {(done.stderr.strip().splitlines() or ['it printed nothing'])[-1]}")
    return _curve(told)


def _curve(told: list[dict[str, Any]]) -> Curve:
    """Add up the ranks' losses of each step."""
    losses = [
        sum(part[0] for part in parts) / sum(part[1] for part in parts)
        for parts in zip(*(answer["steps"] for answer in told), strict=True)
    ]
    first = told[0]
    return Curve(losses, first["accuracy"], first["samples"], first["parameters"], first["torch"])


def compare(base: Curve, other: Curve) -> Difference:
    """Compare two trainings step by step."""
    apart = [abs(was - now) for was, now in zip(base.losses, other.losses, strict=True)]
    first = next((step for step, distance in enumerate(apart, 1) if distance), None)
    largest = max(apart)
    return Difference(
        first, apart[first - 1] if first else 0.0, largest, apart.index(largest) + 1 if largest else None, apart[-1]
    )
