"""Runs a program on several processes of this machine, with the observer in each."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from runner.core import clock
from runner.core.parent import die_with_parent
from runner.core.ports import held_port
from runner.core.text import one_line
from runner.targets.clean_environment import WITHOUT_GPU, clean_environment
from runner.tools.check.observation import read
from runner.tools.check.uneven import Stillness, uneven

HOOKS = Path(__file__).parent / "hooks"
_GRACE_SECONDS = 8.0
"""What a process gets to end after its last line: with Gloo, torch 2.3 may hang there."""
_POLL_SECONDS = 0.05
_LAST_LINES = 200
_EXCEPTION = re.compile(r"(?:\[rank\d{1,6}\]:\s*)?[\w.]{1,120}(?:Error|Exception|Exit|Interrupt)\b")
"""The last line of a traceback: `[rank0]: torch.distributed.DistBackendError: ...`."""
_PLACE = re.compile(r'(?:\[rank\d{1,6}\]:)?\s*File "(.{1,300}?)", line (\d{1,9})')
"""A frame of a traceback: `  File "/work/train.py", line 12, in main`."""


@dataclass(frozen=True)
class Job:
    """A run of a program: its words behind `python`, by how many processes, and the settings of the observer.

    A program that is `alone` starts its processes itself. What is seen and printed goes to files of `folder`.
    """

    words: list[str]
    root: Path
    search: tuple[str, ...]
    world: int
    folder: Path
    alone: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    device: str = "cpu"

    def environment(self, rank: int, port: int) -> dict[str, str]:
        """Return the environment of a process: that of torchrun, and the observer's."""
        path = [str(HOOKS), *(str(self.root / folder) for folder in self.search), os.environ.get("PYTHONPATH", "")]
        world = {} if self.alone else _world(rank, self.world, port)
        hidden = WITHOUT_GPU if self.device == "cpu" else {}
        return {
            **clean_environment(),
            **world,
            **hidden,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
            "PYTHONUNBUFFERED": "1",
            "KIT_CHECK_FOLDER": str(self.folder),
            "KIT_CHECK_RANK": str(rank),
            "KIT_CHECK_ROOT": str(self.root),
            **self.settings,
        }


def _world(rank: int, world: int, port: int) -> dict[str, str]:
    """Return what torchrun gives to a process (torch/distributed/elastic/agent/server/local_elastic_agent.py)."""
    return {
        **dict.fromkeys(("RANK", "LOCAL_RANK", "ROLE_RANK"), str(rank)),
        **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE", "ROLE_WORLD_SIZE"), str(world)),
        **dict.fromkeys(("GROUP_RANK", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS"), "0"),
        "GROUP_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_RUN_ID": "none",
    }


def run_side_by_side(jobs: Sequence[Job], seconds: float) -> list[str]:
    """Run jobs at the same time, and say why each failed; every process has ended when this returns or raises."""
    given_up = Event()
    with ThreadPoolExecutor(len(jobs)) as pool:
        try:
            return list(pool.map(lambda job: run(job, seconds, given_up), jobs))
        except BaseException:  # Ctrl-C; the threads do not see it
            given_up.set()
            raise


def run(job: Job, seconds: float, given_up: Event | None = None) -> str:
    """Run a job to its end, for so many seconds at most; return why it failed, or nothing.

    It is ended early where `given_up` is set.
    """
    job.folder.mkdir(parents=True, exist_ok=True)
    held, began = held_port(), clock.monotonic()
    started: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(1 if job.alone else job.world):
            port = held.getsockname()[1]
            started.append(start(job, rank, port))  # those before are ended if a start fails
        failure = _wait(job, started, began + seconds, given_up or Event())
    finally:
        for process in started:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        held.close()
        if "KIT_CHECK_KILL" not in job.settings:
            put_back(job.folder)
    return failure


def start(job: Job, rank: int, port: int) -> subprocess.Popen[bytes]:
    """Start one process of a job; it leads a session of its own."""
    with (job.folder / f"output-{rank}.txt").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, *job.words],
            cwd=job.root,
            env=job.environment(rank, port),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - it calls prctl(2), and nothing of Python
        )


def written(folder: Path) -> set[str]:
    """Return the files and folders that the program of a run wrote while it trained."""
    noted = folder / "saved.txt"
    return {json.loads(line)[0] for line in noted.read_text("utf-8").splitlines()} if noted.exists() else set()


def put_back(folder: Path) -> None:
    """Leave the files that a program wrote as they were before, or a next run would go on from its checkpoint."""
    noted = folder / "saved.txt"
    lines = noted.read_text("utf-8").splitlines() if noted.exists() else []
    for path, copy in reversed([*map(json.loads, lines)]):  # what the first rank found counts, so it comes last
        if copy:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(copy, path)
        elif Path(path).is_dir():
            with suppress(OSError):
                Path(path).rmdir()
        else:
            Path(path).unlink(missing_ok=True)


def _wait(job: Job, started: list[subprocess.Popen[bytes]], deadline: float, given_up: Event) -> str:
    """Wait until all have ended, or the others had their time after the first; return why it failed."""
    patience: float | None = None
    still = Stillness(job.folder)
    while not given_up.is_set():
        codes = [process.poll() for process in started]
        for rank, code in enumerate(codes):
            # One that is killed by a signal behind its last line has done its work: torch's destructors do that.
            if code and (code > 0 or not _is_over(job, rank)):
                return uneven(read(job.folder), stand_still=False) or _why(job, rank, code)
        if all(code is not None for code in codes):
            return ""
        now = clock.monotonic()
        done = [code is not None or _is_over(job, rank) for rank, code in enumerate(codes)]
        if any(done) and patience is None:
            patience = now + _GRACE_SECONDS
        if all(done) and patience is not None and now > patience:
            return ""
        if now > deadline:
            return f"it did not end in time: rank {done.index(False) if False in done else 0} was still running"
        if why := still.uneven():
            return why
        clock.sleep(_POLL_SECONDS)
    return "it was given up"


def _is_over(job: Job, rank: int) -> bool:
    """Return whether the observer of a process has seen its end, or that it destroyed its process group and no more."""
    try:
        with (job.folder / f"rank-{rank}.jsonl").open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 200))
            last = file.read().rstrip().rpartition(b"\n")[2]
            return last.startswith((b'{"kind": "end"', b'{"kind": "destroy"'))
    except OSError:
        return False


def _why(job: Job, rank: int, code: int | None) -> str:
    """Return how a rank failed: its exception, with the program's own line that led to it."""
    text = (job.folder / f"output-{rank}.txt").read_text("utf-8", "replace")
    printed = [line.strip() for line in text.splitlines() if line.strip()][-_LAST_LINES:]
    said = next((line for line in reversed(printed) if _EXCEPTION.match(line)), (printed or ["it printed nothing"])[-1])
    places = [found for line in printed if (found := _PLACE.match(line)) and found[1].startswith(f"{job.root}/")]
    own = [found for found in places if "site-packages" not in found[1]]
    place = f"{Path(own[-1][1]).relative_to(job.root)}:{own[-1][2]}: " if own else ""
    return one_line(f"rank {rank} ended with code {code}: {place}{said}", 400)
