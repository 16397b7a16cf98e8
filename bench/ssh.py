"""`runner run --on ssh` against plain torchrun on the same two hosts, started by hand over ssh, pairs in turn."""

import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.timing import ROOT, in_turn, print_added, timed, tool

PAIRS = 5
GOAL = 2.0
HOSTS = ("h0", "h1")
MASTER_PORT = 29617
PROGRAM = ["-m", "experiments.toy.ddp", "--steps", "1", "--device", "cpu"]
WORDS = ["toy", "--only", "layout=2x1", "--repeat", "1", "--set", "steps=1", "--device", "cpu"]


def main() -> None:
    """Print the median of the pairs' differences, in seconds; KIT_HOSTS names the hosts, as `.ci/hosts` prints it."""
    config = os.environ.get("KIT_HOSTS", "")
    if not config:
        print("ssh: KIT_HOSTS names no hosts")
        return
    with tempfile.TemporaryDirectory() as folder:
        by_runner(config, Path(folder, "first"))  # brings the programs
        pairs = in_turn(lambda: by_runner(config, Path(folder, "results")), lambda: by_hand(config), PAIRS)
    print_added("ssh", "plain torchrun on two hosts", pairs, GOAL)


def by_runner(config: str, results: Path) -> float:
    """Time the runner."""
    places = ["--with", f"hosts={','.join(HOSTS)}", "--with", f"config={config}", "--results", str(results)]
    return timed([tool("runner"), "run", *WORDS, "--on", "ssh", *places])


def by_hand(config: str) -> float:
    """Time torchrun on both hosts, each started by an ssh of its own."""
    said = subprocess.run(["ssh", "-F", config, "-G", HOSTS[0]], capture_output=True, text=True, check=True).stdout
    master = next(line.split()[1] for line in said.splitlines() if line.startswith("hostname "))
    began = time.monotonic()
    processes = [
        subprocess.Popen(
            ["ssh", "-F", config, host, command(node, master)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for node, host in enumerate(HOSTS)
    ]
    codes = [process.wait() for process in processes]
    if any(codes):
        raise RuntimeError("torchrun failed on the hosts")
    return time.monotonic() - began


def command(node: int, master: str) -> str:
    """Write what a person types on a host."""
    environment = "OMP_NUM_THREADS=1 PET_MONITOR_INTERVAL=0.1 GLOO_SOCKET_IFNAME=eth0"
    launch = ["--nnodes", str(len(HOSTS)), "--node-rank", str(node), "--nproc-per-node", "1"]
    launch += ["--master-addr", master, "--master-port", str(MASTER_PORT)]
    torchrun = shlex.join([sys.executable, "-m", "torch.distributed.run", *launch, *PROGRAM])
    return f"cd {shlex.quote(str(ROOT))} && {environment} {torchrun}"
