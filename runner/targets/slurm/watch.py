"""A job in the queue, looked at from a thread of its own, never more often than every two seconds."""

import queue
from collections.abc import Iterator
from contextlib import suppress
from threading import Event, Thread

from runner.core import clock
from runner.core.text import one_line
from runner.targets.base import Note
from runner.targets.slurm import commands
from runner.targets.slurm.commands import Component, SlurmError

POLL_SECONDS = 2.0
_HOPELESS = ("BadConstraints", "DependencyNeverSatisfied", "launch_failed_requeued_held", "JobLaunchFailure")
"""Reasons of a job that waits and will never start."""


class JobState:
    """What Slurm says of the job of an id."""

    def __init__(self, job: str) -> None:
        self.job = job
        self.components: list[Component] = []
        self.is_gone = False
        """Slurm does not know it any more: it forgets a job some minutes after its end (MinJobAge)."""

    @property
    def has_ended(self) -> bool:
        """Whether the job has left the queue."""
        return self.is_gone or (bool(self.components) and all(part.has_ended for part in self.components))

    @property
    def pending(self) -> str:
        """Why it waits, in Slurm's words; empty if it does not."""
        waits = [part for part in self.components if part.state in ("PENDING", "CONFIGURING", "REQUEUED")]
        return f"{waits[0].state.lower()} ({waits[0].reason or 'no reason given'})" if waits else ""

    def ask(self) -> None:
        """Ask Slurm; SlurmError if it gives no answer."""
        try:
            self.components = commands.show(self.job)
        except SlurmError as error:
            if not error.is_absence:
                raise
            self.components = commands.show_accounted(self.job) or self.components
            self.is_gone = True


class JobWatch(JobState):
    """A job that is watched until it has left the queue."""

    def __init__(self, job: str) -> None:
        super().__init__(job)
        self.waited_seconds = 0.0
        self.restarts = 0
        self._began = clock.monotonic()
        self._said: queue.SimpleQueue[Note] = queue.SimpleQueue()
        self._last = ""
        self._over = Event()
        self._thread = Thread(target=self._watch, daemon=True)
        self._thread.start()

    @property
    def hopeless(self) -> str:
        """Why it will never start; empty if it may."""
        return next(
            (part.reason for part in self.components if part.state == "PENDING" and part.reason in _HOPELESS),
            "",
        )

    def said(self) -> Iterator[Note]:
        """Yield what has come since the last time."""
        with suppress(queue.Empty):
            for _ in range(self._said.qsize()):
                yield self._said.get_nowait()

    def wait_for_end(self, seconds: float) -> bool:
        """Wait until the job has left the queue, at most so long."""
        until = clock.monotonic() + seconds
        while not self.has_ended and clock.monotonic() < until:
            clock.sleep(0.05)
        return self.has_ended

    def close(self) -> None:
        """Look no further."""
        self._over.set()

    def _watch(self) -> None:
        while not self._over.is_set() and not self.has_ended:
            self._look()
            self._over.wait(POLL_SECONDS)

    def _look(self) -> None:
        try:
            self.ask()
        except SlurmError as error:
            self._say(f"job {self.job} goes on; {one_line(error)}")
            return
        self.restarts = max((part.restarts for part in self.components), default=0)
        if self.pending:
            self.waited_seconds = clock.monotonic() - self._began
        state = self.pending or ", ".join(dict.fromkeys(part.state.lower() for part in self.components))
        nodes = "" if self.pending else f" on {','.join(part.nodes for part in self.components if part.nodes)}"
        if not self.has_ended:
            self._say(f"job {self.job} is {state}{nodes}")

    def _say(self, text: str) -> None:
        if text != self._last:
            self._said.put(Note(text))
            self._last = text
