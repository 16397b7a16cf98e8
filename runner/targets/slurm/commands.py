"""Slurm's own commands, each with a time limit.

Slurm gives a job that is cancelled its KillWait, 30 s, before it kills what does not listen, and takes no other signal
for it meanwhile. So the steps of a job are signalled first, and what is left of it is cancelled then.
"""

import os
import re
import subprocess
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

from runner.core import clock
from runner.core.text import one_line
from runner.targets.clean_environment import clean_environment

SECONDS = 30.0
"""Time limit of a command: slurmctld may be busy, and its clients notice only slowly that it is gone."""
ASKED_SECONDS = 4.0
"""How long a job may take to end when it is asked to, before it is killed."""
END_SECONDS = 30.0
"""How long a killed job may stay in the queue."""
_POLL_SECONDS = 2.0
_STEP = 0
"""The job step that runs the processes: the first that the script starts."""
NEEDED = ("sbatch", "scontrol", "scancel", "squeue")
ENDS = {
    "COMPLETED": "",
    "FAILED": "",
    "OUT_OF_MEMORY": "",
    "TIMEOUT": "Slurm ended it at its limit of time, {limit}: ask for more with --with time=...",
    "CANCELLED": "Slurm says that the job was cancelled, not by this runner",
    "PREEMPTED": "Slurm preempted the job: another one needed its nodes",
    "NODE_FAIL": "Slurm says that a node of the job failed",
    "BOOT_FAIL": "Slurm says that a node could not be booted",
    "DEADLINE": "Slurm ended the job at its deadline",
    "REVOKED": "Slurm says that another cluster runs the job",
}
"""The states of a job that has left the queue; those with words are of one that was ended from outside."""
_GONE = "Invalid job id"
_ACCOUNTED = ("State", "ExitCode", "NodeList", "Timelimit")
_NAMES = re.compile(r"^(?:\w+: )?(?:(?:error|fatal|allocation failure|Batch job submission failed|slurm_\w+ error): )*")
"""What stands before the words of a complaint: the command's name, and its kind."""


class SlurmError(OSError):
    """A command of Slurm failed or did not answer; `is_absence` if Slurm knows no such job."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.is_absence = _GONE in text


class Component(NamedTuple):
    """One component of a job, or all of it, as `scontrol show job` describes it."""

    state: str
    """One word of squeue(1), JOB STATE CODES."""
    reason: str
    """Why it waits or ended; empty if Slurm gives none."""
    nodes: str
    """Its nodes as a list expression, for example `n[0-3]`; empty before it starts."""
    restarts: int
    exit_code: int
    """The script's exit code; 0 if it was killed."""
    limit: str

    @property
    def has_ended(self) -> bool:
        """Whether it has left the queue."""
        return self.state in ENDS


def environment(**more: str) -> dict[str, str]:
    """Return the caller's environment, without what a job or another launcher left in it."""
    kept = {name: os.environ[name] for name in ("SLURM_CONF", "SLURM_CLUSTERS") if name in os.environ}
    return {**clean_environment("SLURM_", "SBATCH_", "SCANCEL_", "SQUEUE_"), **kept, **more}


def begin(words: list[str], text: str = "", **options: Any) -> subprocess.Popen[bytes]:
    """Start a command that reads a text, out of reach of Ctrl-C; SlurmError if it cannot be run."""
    with os.fdopen(os.memfd_create(words[0]), "w+b") as file:
        file.write(text.encode("utf-8", "surrogateescape"))
        file.seek(0)
        pipe, options = subprocess.PIPE, {"env": environment(), **options}
        try:
            return subprocess.Popen(words, stdin=file, stdout=pipe, stderr=pipe, start_new_session=True, **options)
        except OSError as error:
            raise SlurmError(f"{words[0]} cannot be run: {error.strerror}") from None


def finish(name: str, process: subprocess.Popen[bytes], seconds: float | None = None) -> str:
    """Return what a command printed; SlurmError with Slurm's own words. Safe to call again if it was interrupted."""
    seconds = seconds or SECONDS
    try:
        printed, complaint = (text.decode("utf-8", "replace") for text in process.communicate(timeout=seconds))
    except subprocess.TimeoutExpired:
        with process:
            process.kill()
        raise SlurmError(f"{name} gave no answer in {seconds:.0f} s: is slurmctld up? scontrol ping") from None
    if process.returncode:
        lines = [_NAMES.sub("", one_line(line, 300)) for line in complaint.splitlines()]
        said = "; ".join(dict.fromkeys(filter(None, lines)))
        raise SlurmError(said or f"{name} exited with {process.returncode} and printed nothing")
    return printed


def call(words: list[str], text: str = "", seconds: float | None = None) -> str:
    """Run a command and return what it printed; SlurmError if it fails."""
    return finish(words[0], begin(words, text), seconds)


def show(job: str) -> list[Component]:
    """Describe a job, component by component; SlurmError if Slurm does not know it any more."""
    found = []
    for line in call(["scontrol", "--oneliner", "show", "job", job]).splitlines():
        words = [word.partition("=") for word in line.split()]
        fields = {name: "" if value in ("None", "(null)") else value for name, _, value in reversed(words)}
        if fields:
            found.append(
                Component(
                    fields["JobState"],
                    fields.get("Reason", ""),
                    fields.get("NodeList", ""),
                    int(fields.get("Restarts", 0)),
                    _exit_code(fields.get("ExitCode", "")),
                    fields.get("TimeLimit", ""),
                )
            )
    return found


def show_accounted(job: str) -> list[Component]:
    """Ask Slurm's accounting for a job that slurmctld has forgotten; nothing if there is none."""
    words = ["sacct", f"--jobs={job}", "--allocations", "--noheader", "--parsable2", f"--format={','.join(_ACCOUNTED)}"]
    try:
        rows = [line.split("|") for line in call(words).splitlines()]
    except SlurmError:  # it is disabled, or its daemon does not answer
        return []
    found = [
        # The state can be "CANCELLED by 1000".
        Component(state.partition(" ")[0], "", nodes.replace("None assigned", ""), 0, _exit_code(code), limit)
        for state, code, nodes, limit in (row for row in rows if len(row) == len(_ACCOUNTED))
    ]
    return [component for component in found if component.has_ended]


def _exit_code(text: str) -> int:
    """Read the exit code of `code:signal`."""
    return int(text.partition(":")[0] or 0)


@cache
def hostnames(nodes: str) -> list[str]:
    """Expand a list expression, for example `n[0-1]`; asks no daemon."""
    return call(["scontrol", "show", "hostnames", nodes]).split() if nodes else []


def find(name: str) -> list[str]:
    """Return the ids of the caller's jobs of a name in the queue."""
    return call(["squeue", "--me", "--noheader", f"--name={name}", "--format=%A"]).split()


def end_jobs(name: str) -> None:
    """End the caller's jobs of a name: asked, then killed; OSError if they stay in the queue.

    Each component of a heterogeneous job is a job of that name.
    """
    jobs = find(name)
    for job in jobs:
        for words in (["--state=PENDING"], ["--ctld", "--signal=TERM"]):
            with suppress(SlurmError):  # it has ended, or Slurm does not answer: what follows says so
                call(["scancel", *words, job])
    jobs = sorted(_wait(name, jobs, ASKED_SECONDS), key=int)
    for job in jobs:
        with suppress(SlurmError):  # it has no step
            call(["scancel", "--signal=KILL", f"{job}.{_STEP}"])
    try:
        if jobs:
            call(["scancel", jobs[0]])
    except SlurmError as error:
        if not error.is_absence:
            raise
    if jobs := _wait(name, jobs, END_SECONDS):
        raise OSError(f"job {', '.join(jobs)} does not leave the queue: scancel {' '.join(jobs)}")


def _wait(name: str, jobs: list[str], seconds: float) -> list[str]:
    """Wait until jobs have left the queue, at most this long; return those that have not."""
    until = clock.monotonic() + seconds
    while jobs and clock.monotonic() < until:
        clock.sleep(_POLL_SECONDS)
        left = find(name)
        jobs = [job for job in jobs if job in left]
    return jobs
