"""Processes of runs that are killed at random moments, what they had printed until then, and when a person is told."""

import os
import random
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import psutil

from tests.contract.harness import Harness
from tests.support.cluster import pods
from tests.support.containers import containers_of
from tests.support.launches import until
from tests.support.processes import end
from tests.support.projects import Project
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


class Told:
    """What a command says on stderr, with the time of each line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.lines: list[tuple[float, str]] = []
        self.process = process
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def ended(self) -> tuple[int, str]:
        """Wait for the end; the exit code, and all that was said."""
        code = self.process.wait()
        self._thread.join()
        return code, "\n".join(line for _, line in self.lines)

    def close(self) -> None:
        """Kill it if a test has failed before its end."""
        self.process.kill()
        self._thread.join()
        with self.process:
            pass

    def after(self, moment: float, words: str) -> float:
        """How many seconds after a moment it first said words that a pattern describes."""
        return next(when for when, line in self.lines if when >= moment and re.search(words, line)) - moment

    def _read(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self.lines.append((time.monotonic(), line.rstrip("\n")))


class Witness:
    """Knows what the processes of a run have printed: they count their lines themselves."""

    def __init__(self, run: Path) -> None:
        self._run = run

    def printed(self) -> dict[int, int]:
        """The last number of each rank until now."""
        return written(self._run)


class HostFiles(Witness):
    """Knows what processes on hosts have printed, whose files are brought here at their end."""

    def printed(self) -> dict[int, int]:
        counts = written(self._run)
        for folder in folders_of(self._run.name):
            counts |= written(folder / "kept")
        return counts


class PodLogs(Witness):
    """What pods print, read by kubectl beside the runner, from when they run until they end."""

    def __init__(self, run: Path, namespace: str, folder: Path) -> None:
        super().__init__(run)
        self._files = []
        for pod in pods(namespace):
            name = str(pod["metadata"]["name"])
            self._files.append(folder / name)
            words = ["kubectl", "logs", "--follow", "-n", namespace, name]
            threading.Thread(target=_keep, args=(words, self._files[-1]), daemon=True).start()
        until(lambda: len(self.printed()) == len(self._files))

    def printed(self) -> dict[int, int]:
        texts = [path.read_bytes() for path in self._files if path.exists()]
        return numbers(b"".join(text.rpartition(b"\n")[0] + b"\n" for text in texts))


def _keep(words: list[str], path: Path) -> None:
    with path.open("wb") as file:
        subprocess.run(words, stdout=file, stderr=subprocess.DEVNULL, check=False)


def numbers(text: bytes) -> dict[int, int]:
    """The last number that each rank printed."""
    last: dict[int, int] = {}
    for number, rank in LINE.findall(text):
        last[int(rank)] = max(last.get(int(rank), 0), int(number))
    return last


def written(run: Path) -> dict[int, int]:
    """The last number that each rank has written, as it has counted itself."""
    counts = {}
    for path in (run / "artifacts").glob("written-*"):
        counts[int(path.name.rpartition("-")[2])] = int(path.read_text().split("\n")[0] or 0)
    return counts


def lost(run: Path, expected: dict[int, int]) -> int:
    """How many of the lines that were printed are not in the raw files; each line until then has to be there."""
    text = b"".join(path.read_bytes() for path in (run / "raw").rglob("*") if path.is_file())
    kept: dict[int, set[int]] = {}
    for number, rank in LINE.findall(text):
        kept.setdefault(int(rank), set()).add(int(number))
    return sum(len(set(range(1, last + 1)) - kept.get(rank, set())) for rank, last in expected.items())


def at_random(seconds: float) -> None:
    """Wait for a random part of a time."""
    time.sleep(random.uniform(0, seconds))


def runner_of(project: Project, run: Path) -> int:
    """The pid of the runner itself, which is not that of a process that stands for it."""
    pid: int = project.record(run)["launch"]["runner"]["pid"]
    return pid


def watchdog_of(run: Path) -> psutil.Process:
    """The process that waits for the end of a run's runner."""

    def look() -> psutil.Process | None:
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if "runner.targets.watchdog" in words and any(word.endswith(f"/{run.name}") for word in words):
                return process
        return None

    return until(look)  # type: ignore[no-any-return]


def kill(harness: Harness, run: Path, who: str) -> float:
    """Kill rank 1 or the agent of the last node with SIGKILL, as soon as it is there; return a moment just before it.

    A command that kills inside a container may end after the runner has told the person. The agent of a pod is process
    1 there, which nobody inside can kill.
    """
    inside: list[str] = []
    if "compose" in harness.words:
        name = until(lambda: containers_of(f"kit-{run.name.lower()}"))[-1]
        inside = ["docker", "exec", "--user", "0", name, "python3"]
    elif "kubernetes" in harness.words:
        namespace = getattr(harness, "namespace", "")
        name = until(lambda: pods(namespace))[-1]["metadata"]["name"]
        inside = ["kubectl", "exec", "-n", namespace, name, "--", "python3"]

    def tried() -> float | None:
        began = time.monotonic()
        if inside:
            words = [*inside, "-c", f"WORKER = {who == RANK_1}\n{_INSIDE}"]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            return began if "/proc/" in done.stdout or done.returncode == 137 else None  # it took the container along
        seen = harness.processes(run)
        found = [one.process for one in seen if (one.is_agent if who == AGENT_1 else one.environ.get("RANK") == "1")]
        end(*found)
        return began if found else None

    moment: float = until(tried, 60)
    return moment


def kill_runner(project: Project, run: Path) -> None:
    """Kill the runner with SIGKILL."""
    os.kill(runner_of(project, run), signal.SIGKILL)
