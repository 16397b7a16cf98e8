"""A job in the queue, looked at from a thread every two seconds."""

from collections import deque
from threading import Event, Thread

from runner.core import clock
from runner.targets.base import Note
from runner.targets.slurm import commands
from runner.targets.slurm.commands import Component, SlurmError

POLL_SECONDS = 2.0
_HOPELESS = ("BadConstraints", "DependencyNeverSatisfied", "launch_failed_requeued_held", "JobLaunchFailure")
"""Reasons of a job that waits and will never start."""


class JobState:
    """What Slurm says of the job of an id; without one, it is not submitted yet."""

    def __init__(self, job: str = "") -> None:
        self.job = job
        self.components: list[Component] = []
        self.is_gone = False
        """Slurm does not know it any more: it forgets a job some minutes after its end (MinJobAge)."""

    @property
    def has_ended(self) -> bool:
        """Whether the job has left the queue."""
        return self.is_gone or (bool(self.components) and all(part.has_ended for part in self.components))

    @property
    def state(self) -> str:
        """Its state; of a heterogeneous job, that of the component that did not complete."""
        says_less = {"CANCELLED": 1, "COMPLETED": 2}
        return min((part.state for part in self.components), key=lambda state: says_less.get(state, 0), default="")

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
        self.notes: deque[Note] = deque()
        """What there is to say of it and was not said yet."""
        self._began = clock.monotonic()
        self._last = ""
        self._over = Event()
        Thread(target=self._watch, daemon=True).start()

    @property
    def hopeless(self) -> str:
        """Why it will never start; empty if it may."""
        waiting = [part.reason for part in self.components if part.state == "PENDING"]
        return next((reason for reason in waiting if reason in _HOPELESS), "")

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
            self._say(f"job {self.job} goes on; {error}")
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
            self.notes.append(Note(text))
            self._last = text
