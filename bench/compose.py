"""`runner run --on compose` against a bare `docker compose up` of the file that it kept, pairs in turn."""

import os
import subprocess
import tempfile
from pathlib import Path

from bench.timing import in_turn, print_added, timed, tool

PAIRS = 5
GOAL = 3.0
OWNER = {"KIT_UID": str(os.getuid()), "KIT_GID": str(os.getgid())}
WORDS = ["quickstart", "--only", "layout=1x2", "--repeat", "1", "--set", "epochs=10", "--device", "cpu"]


def main() -> None:
    """Print the median of the pairs' differences, in seconds."""
    if subprocess.run(["docker", "version"], capture_output=True, check=False).returncode:
        print("compose: no Docker Engine answers")
        return
    with tempfile.TemporaryDirectory() as folder:
        kept = run(Path(folder, "first"))[1]  # builds the image if it is missing
        pairs = in_turn(lambda: run(Path(tempfile.mkdtemp(dir=folder)))[0], lambda: up(kept), PAIRS)
    print_added("compose", "a bare docker compose up", pairs, GOAL)


def run(results: Path) -> tuple[float, Path]:
    """Time the runner; return the seconds and the compose file that it kept."""
    seconds = timed([tool("runner"), "run", *WORDS, "--on", "compose", "--results", str(results)], **OWNER)
    (kept,) = results.glob("*/*/request/compose.yaml")
    return seconds, kept


def up(file: Path) -> float:
    """Time `up`; then take the containers away, outside of the clock."""
    (file.parents[1] / "raw" / "node0").mkdir(exist_ok=True)  # the run took it away, empty
    words = ["docker", "compose", "-f", str(file), "-p", "kit-bench"]
    seconds = timed([*words, "up"], **OWNER)
    timed([*words, "down"], **OWNER)
    return seconds
