"""Kill processes of runs at random moments, and count the lines that they had printed."""

import random
import re
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.contract.harness import Harness, Hosts, Pods
from tests.support.cluster import pods
from tests.support.containers import containers_of
from tests.support.launches import printed, until
from tests.support.processes import end
from tests.support.ssh_hosts import folders_of

LINE = re.compile(rb"^line (\d+) of rank (\d+)$", re.MULTILINE)
RANK_1, AGENT_1 = "rank 1", "agent of node 1"
_INSIDE = """
import glob, os, signal
for place in glob.glob("/proc/[0-9]*"):
    try:
        variables = open(place + "/environ", "rb").read().split(b"\\0")
        words = open(place + "/cmdline", "rb").read()
    except OSError:
        continue
    ranks = [variable for variable in variables if variable.startswith(b"RANK=")]
    if ranks == [b"RANK=1"] if WORKER else not ranks and b"torchrun" in words and b"tini" not in words:
        print(place, words)
        os.kill(int(place[6:]), signal.SIGKILL)
"""


def witness(harness: Harness, run: Path, folder: Path) -> Callable[[], dict[int, int]]:
    """Return a function that counts the lines that each rank has printed so far.

    The processes count them, and those on hosts keep the counts there until the end. Pods keep none, so kubectl reads
    their logs into `folder`.
    """
    if not isinstance(harness, Pods):

        def count() -> dict[int, int]:
            counts = written(run)
            for kept in folders_of(run.name) if isinstance(harness, Hosts) else ():
                counts |= written(kept / "kept")
            return counts

        return count
    until(harness.have_begun(run, 2), 90)
    files = []
    for pod in pods(harness.namespace):
        files.append(folder / str(pod["metadata"]["name"]))
        words = ["kubectl", "logs", "--follow", "-n", harness.namespace, files[-1].name]
        threading.Thread(target=_keep, args=(words, files[-1]), daemon=True).start()

    def read() -> dict[int, int]:
        texts = [path.read_bytes() for path in files if path.exists()]
        return {int(rank): int(number) for text in texts for number, rank in LINE.findall(text)}

    until(lambda: len(read()) == len(files))
    return read


def _keep(words: list[str], path: Path) -> None:
    with path.open("wb") as file:
        subprocess.run(words, stdout=file, stderr=subprocess.DEVNULL, check=False)


def written(run: Path) -> dict[int, int]:
    """Return the number of lines that each rank has counted."""
    paths = (run / "artifacts").glob("written-*")
    return {int(path.name.rpartition("-")[2]): int(path.read_text().split("\n")[0] or 0) for path in paths}


def lost(run: Path, expected: dict[int, int]) -> int:
    """Return how many of the expected lines are missing in the raw files."""
    kept = {(int(rank), int(number)) for number, rank in LINE.findall(printed(run))}
    return sum((rank, number) not in kept for rank, last in expected.items() for number in range(1, last + 1))


def at_random(seconds: float) -> None:
    time.sleep(random.uniform(0, seconds))


def kill(harness: Harness, run: Path, who: str) -> float:
    """Kill rank 1 or the agent of the last node with SIGKILL as soon as it exists; return a time just before that.

    The time after it would be too late: a kill inside a container may return after the runner's message. The agent of
    a pod cannot be killed from inside, because it is process 1.
    """
    inside: list[str] = []
    if "compose" in harness.words:
        inside = ["docker", "exec", "--user", "0", until(lambda: containers_of(f"kit-{run.name.lower()}"))[-1]]
    elif isinstance(harness, Pods):
        name = until(lambda: pods(harness.namespace))[-1]["metadata"]["name"]
        inside = ["kubectl", "exec", "-n", harness.namespace, name, "--"]

    def tried() -> float | None:
        began = time.monotonic()
        if inside:
            words = [*inside, "python3", "-c", f"WORKER = {who == RANK_1}\n{_INSIDE}"]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            return began if "/proc/" in done.stdout or done.returncode == 137 else None  # it took the container along
        seen = harness.processes(run)
        found = [one.process for one in seen if (one.is_agent if who == AGENT_1 else one.environ.get("RANK") == "1")]
        end(*found)
        return began if found else None

    moment: float = until(tried, 60)
    return moment
