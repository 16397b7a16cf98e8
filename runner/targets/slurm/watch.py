"""The state of a job in Slurm."""

from collections import deque
from threading import Event, Thread

from runner.core import clock
from runner.targets.base import Note
from runner.targets.slurm import commands
from runner.targets.slurm.commands import ENDS, Component, SlurmError
from runner.targets.slurm.script import AGAIN, NO_FOLDER, NO_PROJECT

POLL_SECONDS = 2.0
_CODES = {
    NO_PROJECT: "a node cannot see the folder that the job was submitted from: move it to a shared file system",
    NO_FOLDER: "a node cannot see the run's folder: choose one on a shared file system with --results",
    AGAIN: "Slurm requeued the job, but its script runs only once: submit it again",
}
_HOPELESS = ("BadConstraints", "DependencyNeverSatisfied", "launch_failed_requeued_held", "JobLaunchFailure")
"""Reasons of pending jobs that will never start."""


class JobState:
    """State of a job in Slurm. `job` is the job's id, or empty if the job is not submitted yet."""

    def __init__(self, job: str = "") -> None:
        self.job = job
        self.components: list[Component] = []
        self.is_gone = False
        """Whether Slurm has forgotten the job, some minutes after its end (MinJobAge)."""
        self.waited_seconds = 0.0
        self.notes: deque[Note] = deque()
        self._last = ""
        self._over = Event()

    @property
    def has_ended(self) -> bool:
        """Whether the job has left the queue."""
        return self.is_gone or (bool(self.components) and all(part.has_ended for part in self.components))

    @property
    def state(self) -> str:
        """State of the job. If components differ, it is the state of one that did not complete."""
        says_less = {"CANCELLED": 1, "COMPLETED": 2}
        return min((part.state for part in self.components), key=lambda state: says_less.get(state, 0), default="")

    @property
    def pending(self) -> str:
        """State of a waiting job and why it waits. Empty if the job does not wait."""
        waits = [part for part in self.components if part.state in ("PENDING", "CONFIGURING", "REQUEUED")]
        return f"{waits[0].state.lower()} ({waits[0].reason or 'no reason given'})" if waits else ""

    @property
    def refusal(self) -> str:
        """Why the script refused to start the processes, from the script's exit code. Empty if it did not refuse."""
        code = next((part.exit_code for part in self.components if part.exit_code in _CODES), 0)
        return f"job {self.job}: {_CODES[code]}" if code else ""

    @property
    def end(self) -> str:
        """Why the job was ended from outside, or why its script refused to start. Empty if neither happened."""
        words = ENDS.get(self.state, "")
        limit = next((part.limit for part in self.components if part.state == self.state), "")
        return self.refusal or (f"job {self.job}: {words.format(limit=limit)}" if words else "")

    def ask(self) -> None:
        """Update the state. Raises SlurmError if Slurm does not answer."""
        try:
            self.components = commands.show(self.job)
        except SlurmError as error:
            if not error.is_absence:
                raise
            self.components = commands.show_accounted(self.job) or self.components
            self.is_gone = True

    def require_first(self) -> None:
        """Raise OSError if the job will never start or was requeued. A second start would overwrite the run's files."""
        if any(part.restarts for part in self.components):
            raise OSError(f"Slurm requeued job {self.job}: repeat its run with: runner run ... --missing")
        for part in self.components:
            if part.state == "PENDING" and part.reason in _HOPELESS:
                raise OSError(f"job {self.job} will never start: {part.reason}")

    def watch(self, job: str) -> None:
        """Follow a submitted job in a thread until it has left the queue."""
        self.job = job
        Thread(target=self._watch, args=(clock.monotonic(),), daemon=True).start()

    def close(self) -> None:
        """Stop following the job."""
        self._over.set()

    def _watch(self, began: float) -> None:
        while not self._over.is_set() and not self.has_ended:
            self._look(began)
            self._over.wait(POLL_SECONDS)

    def _look(self, began: float) -> None:
        try:
            self.ask()
        except SlurmError as error:
            self._say(f"job {self.job} continues; {error}")
            return
        if self.pending:
            self.waited_seconds = clock.monotonic() - began
        state = self.pending or ", ".join(dict.fromkeys(part.state.lower() for part in self.components))
        nodes = "" if self.pending else f" on {','.join(part.nodes for part in self.components if part.nodes)}"
        if not self.has_ended:
            self._say(f"job {self.job} is {state}{nodes}")

    def _say(self, text: str) -> None:
        if text != self._last:
            self.notes.append(Note(text))
            self._last = text
