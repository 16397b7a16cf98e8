"""`runner run` around a training of about a minute against plain torchrun, pairs in turn."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAIRS = 3
WANTED_SECONDS = 60
GOAL = 2.0
# One process: on a small machine a second one would fight with whatever else runs, and hide what is looked for.
ARGS = {
    "dataset": "digits",
    "model": "seed-2",
    "batch_size": 256,
    "scaling": "strong",
    "device": "cpu",
    "seed": 1,
}


def main() -> None:
    """Print the median of the pairs' relative differences."""
    epochs = _epochs_for(WANTED_SECONDS)
    differences, plain = [], []
    with tempfile.TemporaryDirectory() as folder:
        definition = Path(folder, "overhead.yaml")
        own = {key: value for key, value in ARGS.items() if key not in ("scaling", "device")}
        definition.write_text(
            "name: overhead\nsummary: What does the runner cost?\nprogram: mnist.ddp\nscaling: strong\nrepeat: 1\n"
            f"args: {json.dumps({**own, 'epochs': epochs})}\nmatrix: {{layout: [1x1]}}\n"
        )
        for number in range(PAIRS):
            results = str(Path(folder, f"results-{number}"))
            bare = _time(_torchrun(epochs))
            wrapped = _time([tool("runner"), "run", str(definition), "--device", "cpu", "--results", results])
            plain.append(bare)
            differences.append((wrapped - bare) / bare * 100)
    points = ", ".join(f"{one:+.1f}%" for one in differences)
    print(
        f"overhead: runner run adds {statistics.median(differences):+.1f}% to {statistics.median(plain):.0f} s "
        f"of plain torchrun (goal: at most {GOAL:g}%), median of {PAIRS} pairs: {points}"
    )


def _epochs_for(seconds: float) -> int:
    """Choose the number of epochs that lasts about so long on this machine."""
    few, many = _time(_torchrun(2)), _time(_torchrun(12))
    return max(1, round((seconds - few) / max((many - few) / 10, 0.01)))


def _torchrun(epochs: int) -> list[str]:
    words = [word for key, value in ARGS.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    launch = [
        "--nnodes",
        "1",
        "--nproc-per-node",
        "1",
        "--monitor-interval",
        "0.1",
        "--master-port",
        "29517",
    ]
    return [
        tool("torchrun"),
        *launch,
        "-m",
        "experiments.mnist.ddp",
        *words,
        "--epochs",
        str(epochs),
    ]


def _time(command: list[str]) -> float:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    began = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"overhead: {command[0]} exited with {done.returncode}: {done.stderr[-500:]}")
    return time.perf_counter() - began


def tool(name: str) -> str:
    """Return the path of a command of this environment."""
    return str(Path(sys.executable).with_name(name))
