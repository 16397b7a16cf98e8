"""Other processes, each looked at once: any of them may end between two looks."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Seen:
    """A process as it was at one moment."""

    process: psutil.Process
    environ: dict[str, str]
    words: list[str]

    @property
    def is_agent(self) -> bool:
        """Whether it is a torchrun."""
        return "torch.distributed.run" in self.words and "RANK" not in self.environ


def seen(wanted: Callable[[dict[str, str]], bool]) -> list[Seen]:
    """Every process whose environment is the wanted one, without those that end meanwhile."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if wanted(environ := process.environ()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(Seen(process, environ, process.cmdline()))
    return found


def children_of(pid: int, word: str) -> list[psutil.Process]:
    """The children of a process whose command line contains a word."""
    found = []
    for child in psutil.Process(pid).children():
        with contextlib.suppress(psutil.Error):
            if word in " ".join(child.cmdline()):
                found.append(child)
    return found


def lives(process: psutil.Process | int) -> bool:
    """Whether a process, or the one with a pid, has not ended yet."""
    try:
        process = psutil.Process(process) if isinstance(process, int) else process
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def is_stopped(process: psutil.Process) -> bool:
    """Whether a process is held by a signal."""
    try:
        return bool(process.status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:
        return False


def end(*processes: psutil.Process) -> None:
    """Kill processes, of which some may be gone with those killed before them."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
