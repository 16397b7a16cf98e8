"""Queries of other processes, which may end at any moment."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Seen:
    """A process at one moment."""

    process: psutil.Process
    environ: dict[str, str]
    words: list[str]

    @property
    def is_agent(self) -> bool:
        """Whether the process is torchrun."""
        return "torch.distributed.run" in self.words and "RANK" not in self.environ


def seen(wanted: Callable[[dict[str, str]], bool]) -> list[Seen]:
    """Return the processes whose environment is wanted."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if wanted(environ := process.environ()) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(Seen(process, environ, process.cmdline()))
    return found


def children_of(pid: int, word: str) -> list[psutil.Process]:
    """Return a process's children whose command line contains a word."""
    found = []
    for child in psutil.Process(pid).children():
        with suppress(psutil.Error):
            if word in " ".join(child.cmdline()):
                found.append(child)
    return found


def lives(process: psutil.Process | int) -> bool:
    """Return whether a process, or the one with a pid, has not ended."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(process) if isinstance(process, int) else process
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def is_stopped(process: psutil.Process) -> bool:
    """Return whether a signal has stopped a process."""
    with suppress(psutil.NoSuchProcess):
        return bool(process.status() == psutil.STATUS_STOPPED)
    return False


def end(*processes: psutil.Process) -> None:
    """Kill processes, unless they have ended."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
