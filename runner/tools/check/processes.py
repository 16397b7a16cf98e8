"""Run a program in several processes of this machine, with the observer in each."""

import json
import math
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
from itertools import zip_longest
from pathlib import Path
from threading import Event

from runner.core import clock
from runner.core.parent import die_with_parent
from runner.core.ports import held_port
from runner.core.text import one_line
from runner.targets.clean_environment import WITHOUT_GPU, clean_environment
from runner.tools.check.observation import Rank, read

HOOKS = Path(__file__).parent / "hooks"
_GRACE_SECONDS = 8.0
"""Time for a process to exit after its last line, since torch 2.3 with Gloo may hang there."""
_POLL_SECONDS = 0.05
_STILL_SECONDS = 20.0
"""If no rank writes an event for this time, the ranks' numbers of steps are compared."""
_OVER = ("waits", "destroy", "end")
_LAST_LINES = 200
_EXCEPTION = re.compile(r"(?:\[rank\d{1,6}\]:\s*)?[\w.]{1,120}(?:Error|Exception|Exit|Interrupt)\b")
"""The last line of a traceback: `[rank0]: torch.distributed.DistBackendError: ...`."""
_PLACE = re.compile(r'(?:\[rank\d{1,6}\]:)?\s*File "(.{1,300}?)", line (\d{1,9})')
"""A frame of a traceback: `  File "/work/train.py", line 12, in main`."""


@dataclass(frozen=True)
class Program:
    """The program to check. `words` holds its arguments for `python`, first for one process, then for several.

    If `alone`, the program starts its processes itself. `settings` are environment variables for the observer.
    """

    words: Sequence[list[str]]
    root: Path
    search: Sequence[str] = ()
    alone: bool = False
    device: str = "cpu"
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """A run of a program with `world` processes. Events and output go to files in `folder`."""

    program: Program
    world: int
    folder: Path
    settings: dict[str, str] = field(default_factory=dict)

    def environment(self, rank: int, port: int) -> dict[str, str]:
        """Return a process's environment, with torchrun's and the observer's variables."""
        program = self.program
        path = [str(HOOKS), *(str(program.root / folder) for folder in program.search), os.environ.get("PYTHONPATH")]
        return {
            **clean_environment(),
            **({} if program.alone else _world(rank, self.world, port)),
            **(WITHOUT_GPU if program.device == "cpu" else {}),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
            "PYTHONUNBUFFERED": "1",
            "KIT_CHECK_FOLDER": str(self.folder),
            "KIT_CHECK_RANK": str(rank),
            "KIT_CHECK_ROOT": str(program.root),
            **program.settings,
            **self.settings,
        }


def _world(rank: int, world: int, port: int) -> dict[str, str]:
    """Return torchrun's variables for a process (torch/distributed/elastic/agent/server/local_elastic_agent.py)."""
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
    """Run jobs at the same time, and leave no process behind. Return the failure of each job, or ""."""
    given_up = Event()
    with ThreadPoolExecutor(len(jobs)) as pool:
        try:
            return list(pool.map(lambda job: run(job, seconds, given_up), jobs))
        except BaseException:  # Ctrl-C, which only this thread gets
            given_up.set()
            raise


def run(job: Job, seconds: float, given_up: Event | None = None) -> str:
    """Run a job for `seconds` at most, or until `given_up` is set. Return its failure, or ""."""
    job.folder.mkdir(parents=True, exist_ok=True)
    held, deadline = held_port(), clock.monotonic() + seconds
    started: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(1 if job.program.alone else job.world):  # if one does not start, end those that did
            with (job.folder / f"output-{rank}.txt").open("wb") as output:
                process = subprocess.Popen(
                    [sys.executable, *job.program.words[job.world > 1]],
                    cwd=job.program.root,
                    env=job.environment(rank, held.getsockname()[1]),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=die_with_parent,  # noqa: PLW1509 - only calls prctl(2)
                )
            started.append(process)
        return _wait(job, started, deadline, given_up or Event())
    finally:
        for process in started:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        held.close()
        if "KIT_CHECK_KILL" not in job.settings:
            put_back(job.folder)


def written(folder: Path) -> list[tuple[str, str | None]]:
    """Return the paths that a run wrote while training, each with the path of a copy of the old file, or None."""
    noted = folder / "saved.txt"
    return [json.loads(line) for line in noted.read_text("utf-8").splitlines()] if noted.exists() else []


def put_back(folder: Path) -> None:
    """Restore the files that a run wrote, so that the next run does not resume from a checkpoint."""
    for name, copy in reversed(written(folder)):  # the first copy of a file is restored last, so that it stays
        path = Path(name)
        if copy:
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(copy, path)
        elif path.is_dir():
            with suppress(OSError):
                path.rmdir()
        else:
            path.unlink(missing_ok=True)


def _wait(job: Job, started: list[subprocess.Popen[bytes]], deadline: float, given_up: Event) -> str:
    patience: float | None = None
    still = Stillness(job.folder)
    while not given_up.is_set():
        codes = [process.poll() for process in started]
        for rank, code in enumerate(codes):
            # A signal after the last line is no failure: torch's destructors may cause it.
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
            return f"the run did not end in time: rank {done.index(False) if False in done else 0} was still running"
        if why := still.uneven():
            return why
        clock.sleep(_POLL_SECONDS)
    return "the run was given up"


def _is_over(job: Job, rank: int) -> bool:
    try:
        with (job.folder / f"rank-{rank}.jsonl").open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 200))
            last = file.read().rstrip().rpartition(b"\n")[2]
            return last.startswith((b'{"kind": "end"', b'{"kind": "destroy"'))
    except OSError:
        return False


def _why(job: Job, rank: int, code: int | None) -> str:
    text = (job.folder / f"output-{rank}.txt").read_text("utf-8", "replace")
    printed = [line.strip() for line in text.splitlines() if line.strip()][-_LAST_LINES:]
    last = next((line for line in reversed(printed) if _EXCEPTION.match(line)), (printed or ["no output"])[-1])
    root, place = f"{job.program.root}/", ""
    for match in filter(None, map(_PLACE.match, printed)):
        if match[1].startswith(root) and "site-packages" not in match[1]:
            place = f"{match[1].removeprefix(root)}:{match[2]}: "
    return one_line(f"rank {rank} ended with code {code}: {place}{last}", 400)


def uneven(ranks: list[Rank], *, stand_still: bool) -> str:
    """Return a message if ranks took unequal numbers of steps before their run failed or stood still, else ""."""
    backwards = [sum(1 for _ in rank.of("backward")) for rank in ranks]
    if len(set(backwards)) < 2:
        return ""
    passes = [[own for own in rank.loaders if own.trains] for rank in ranks]
    for several in zip_longest(*passes):
        ended = [own.length or (None if own.is_broken else len(own.batches)) if own else None for own in several]
        if len({*ended, None}) > 2:
            return _unequal(ended, "batches an epoch")
    least = ranks[backwards.index(min(backwards))]
    if stand_still and least.events[-1]["kind"] in _OVER:
        return _unequal(backwards, "backward passes")
    return ""


def _unequal(numbers: Sequence[int | None], what: str) -> str:
    first, *others = [f"rank {rank} has {number or 'more'}" for rank, number in enumerate(numbers)]
    return f"{', '.join([f'{first} {what}', *others])}: the ranks take unequal numbers of steps"


class Stillness:
    """Detects that no rank of a run writes events any more."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._size, self._since = folder, -1, 0.0

    def uneven(self) -> str:
        """Return a message if no event was written for some time and the numbers of steps are unequal, else ""."""
        size, now = sum(path.stat().st_size for path in self._folder.glob("*.jsonl")), clock.monotonic()
        if size != self._size:
            self._size, self._since = size, now
        elif now > self._since + _STILL_SECONDS:
            self._since = math.inf  # until another event is written
            return uneven(read(self._folder), stand_still=True)
        return ""
