"""How long a run of two processes takes to its first step, in pairs with a bare script under plain torchrun."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.timing import ROOT, interval, tool

PAIRS = 6
BARE = """
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters())
model(torch.ones(4, 8)).sum().backward()
optimizer.step()
if dist.get_rank() == 0:
    open(os.environ["FIRST_STEP"], "w").write(str(time.time()))
"""


def main() -> None:
    """Print the ratio for the bare script below the runner, and for the program of `make run`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "bare.py").write_text(BARE)
        (folder / "runner.toml").touch()
        (folder / "bare.yaml").write_text(
            "name: bare\nsummary: How soon is the first step?\nprogram: bare.py\ndialect: none\nscaling: strong\n"
            "repeat: 1\nmeasure: wall_seconds\nmatrix: {layout: [1x2]}\n"
        )
        torchrun = [tool("torchrun"), "--standalone", "--nproc-per-node", "2", "--monitor-interval", "0.1", "bare.py"]
        below = [tool("runner"), "run", "bare.yaml", "--device", "cpu"]
        pairs = [(_bare(folder, torchrun), _bare(folder, below), _quickstart(folder)) for _ in range(PAIRS)]
    for what, number in (("the same script below runner run", 1), ("the program of make run", 2)):
        ratio = interval([pair[number] / pair[0] for pair in pairs])
        print(f"first step: {what} takes {ratio.mean:.2f} [{ratio.low:.2f}, {ratio.high:.2f}] times a bare torchrun")


def _bare(folder: Path, command: list[str]) -> float:
    """Return the seconds from the command to the first step of the bare script."""
    file = folder / "first"
    environment = {**os.environ, "FIRST_STEP": str(file), "OMP_NUM_THREADS": "1"}
    began = time.time()
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    return float(file.read_text()) - began


def _quickstart(folder: Path) -> float:
    """Return the seconds from the command to the first epoch of the quickstart, which begins behind its warm-up."""
    results = Path(tempfile.mkdtemp(dir=folder))
    words = ["run", "quickstart", "--layout", "1x2", "--repeat", "1", "--device", "cpu", "--set", "epochs=1"]
    began = time.time()
    subprocess.run([tool("runner"), *words, "--results", results], cwd=ROOT, check=True, capture_output=True)
    for path in results.rglob("*rank0*"):
        for line in path.read_text().splitlines():
            if line.startswith(":::MLLOG") and (event := json.loads(line[9:]))["key"] == "epoch_start":
                return float(event["time_ms"]) / 1000 - began
    sys.exit(f"error: no epoch_start in {results}")
