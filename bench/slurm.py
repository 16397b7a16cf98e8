"""`runner run --on slurm` against plain torchrun in a batch job of the same two nodes, pairs in turn."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.timing import ROOT, in_turn, print_added, timed, tool

PAIRS = 5
GOAL = 2.0
LONGEST_SECONDS = 120.0
WORDS = ["toy", "--only", "layout=2x1", "--repeat", "1", "--set", "steps=1", "--device", "cpu"]
BY_HAND = """#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --output=/dev/null
export OMP_NUM_THREADS=1 PET_MONITOR_INTERVAL=0.1 PET_NNODES=2 PET_NPROC_PER_NODE=1 PET_MASTER_PORT=29618
program="-m experiments.toy.ddp --steps 1 --device cpu"
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export PET_MASTER_ADDR=$(scontrol --oneliner show node "$first" | sed -n 's/.* NodeAddr=\\([^ ]*\\).*/\\1/p')
srun bash -c 'PET_NODE_RANK=$SLURM_PROCID exec "$0" -m torch.distributed.run "$@"' "$KIT_PYTHON" $program &&
  touch "$KIT_DONE"
"""


def main() -> None:
    """Print the median of the pairs' differences, in seconds; SLURM_CONF names the cluster, as `.ci/slurm up` does."""
    if "SLURM_CONF" not in os.environ:
        print("slurm: SLURM_CONF names no cluster")
        return
    with tempfile.TemporaryDirectory() as folder:
        pairs = in_turn(
            lambda: timed([tool("runner"), "run", *WORDS, "--on", "slurm", "--results", f"{folder}/results"]),
            lambda: by_hand(Path(tempfile.mkdtemp(dir=folder), "done")),
            PAIRS,
        )
    print_added("slurm", "a batch job with plain torchrun on two nodes", pairs, GOAL)


def by_hand(done: Path) -> float:
    """Time a batch job from its submission until torchrun has ended well on both nodes."""
    environment = {**os.environ, "KIT_PYTHON": sys.executable, "KIT_DONE": str(done)}
    began = time.monotonic()
    subprocess.run(["sbatch"], input=BY_HAND, text=True, cwd=ROOT, env=environment, capture_output=True, check=True)
    while not done.exists():
        if time.monotonic() > began + LONGEST_SECONDS:
            raise RuntimeError("torchrun failed in the batch job")
        time.sleep(0.02)
    return time.monotonic() - began
