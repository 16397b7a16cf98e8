"""Functions that call Slurm's commands with a timeout.

If processes of a cancelled job ignore SIGTERM, Slurm kills them after KillWait (30 s), and delivers no other signal
until then. So `end_jobs` first sends signals to a job's steps and then cancels the job.
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
"""Timeout of a command, because slurmctld may be busy or down."""
ASKED_SECONDS = 4.0
"""How long a job may take to end after SIGTERM before it is killed."""
END_SECONDS = 30.0
"""How long a killed job may remain in the queue."""
_POLL_SECONDS = 2.0
_STEP = 0
"""Job step of the processes: the first step of the script."""
NEEDED = ("sbatch", "scontrol", "scancel", "squeue")
ENDS = {
    "COMPLETED": "",
    "FAILED": "",
    "OUT_OF_MEMORY": "",
    "TIMEOUT": "Slurm ended the job at its time limit, {limit}: set a longer one with --with time=...",
    "CANCELLED": "cancelled, but not by this runner",
    "PREEMPTED": "Slurm preempted the job: another job needed its nodes",
    "NODE_FAIL": "Slurm reports that a node of the job failed",
    "BOOT_FAIL": "Slurm reports that a node could not be booted",
    "DEADLINE": "Slurm ended the job at its deadline",
    "REVOKED": "Slurm reports that another cluster runs the job",
}
"""States of ended jobs, each with a message if the job was ended from outside."""
_GONE = "Invalid job id"
_ACCOUNTED = ("State", "ExitCode", "NodeList", "Timelimit")
_NAMES = re.compile(r"^(?:\w+: )?(?:(?:error|fatal|allocation failure|Batch job submission failed|slurm_\w+ error): )*")
"""Prefix of Slurm's error messages: the command's name and the kind of error."""


class SlurmError(OSError):
    """Failure of a Slurm command. `is_absence` is true if Slurm does not know the job."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.is_absence = _GONE in text


class Component(NamedTuple):
    """State of a job, or of one component of a heterogeneous job, as Slurm reports it."""

    state: str
    """State code from squeue(1), JOB STATE CODES."""
    reason: str
    """Why the component waits or has ended; can be empty."""
    nodes: str
    """Node list expression, e.g. `n[0-3]`; empty before the start."""
    restarts: int
    exit_code: int
    """Exit code of the script; 0 if it was killed."""
    limit: str

    @property
    def has_ended(self) -> bool:
        """Whether the component has left the queue."""
        return self.state in ENDS


def environment(**more: str) -> dict[str, str]:
    """Return the environment for a Slurm command. It has no variables of an enclosing job or another launcher."""
    kept = {name: os.environ[name] for name in ("SLURM_CONF", "SLURM_CLUSTERS") if name in os.environ}
    return {**clean_environment("SLURM_", "SBATCH_", "SCANCEL_", "SQUEUE_"), **kept, **more}


def begin(words: list[str], text: str = "", **options: Any) -> subprocess.Popen[bytes]:
    """Start a command with `text` as stdin, safe from Ctrl-C. Raises SlurmError if the command cannot be run."""
    with os.fdopen(os.memfd_create(words[0]), "w+b") as file:
        file.write(text.encode("utf-8", "surrogateescape"))
        file.seek(0)
        pipe, options = subprocess.PIPE, {"env": environment(), **options}
        try:
            return subprocess.Popen(words, stdin=file, stdout=pipe, stderr=pipe, start_new_session=True, **options)
        except OSError as error:
            raise SlurmError(f"{words[0]} cannot be run: {error.strerror}") from None


def finish(name: str, process: subprocess.Popen[bytes], seconds: float | None = None) -> str:
    """Wait for a command and return its output. Can be called again after an interrupt.

    Raises SlurmError if the command fails or times out.
    """
    seconds = seconds or SECONDS
    try:
        printed, complaint = (text.decode("utf-8", "replace") for text in process.communicate(timeout=seconds))
    except subprocess.TimeoutExpired:
        with process:
            process.kill()
        raise SlurmError(f"{name} did not answer in {seconds:.0f} s: is slurmctld up? scontrol ping") from None
    if process.returncode:
        lines = [_NAMES.sub("", one_line(line, 300)) for line in complaint.splitlines()]
        said = "; ".join(dict.fromkeys(filter(None, lines)))
        raise SlurmError(said or f"{name} exited with {process.returncode} and printed nothing")
    return printed


def call(words: list[str], text: str = "", seconds: float | None = None) -> str:
    """Run a command and return its output. Raises SlurmError if the command fails."""
    return finish(words[0], begin(words, text), seconds)


def show(job: str) -> list[Component]:
    """Return a job's components. Raises SlurmError if Slurm no longer knows the job."""
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
    """Return an ended job's components from Slurm's accounting, or [] if it has none.

    Accounting keeps jobs longer than slurmctld.
    """
    words = ["sacct", f"--jobs={job}", "--allocations", "--noheader", "--parsable2", f"--format={','.join(_ACCOUNTED)}"]
    try:
        rows = [line.split("|") for line in call(words).splitlines()]
    except SlurmError:  # accounting is disabled, or slurmdbd does not answer
        return []
    found = [
        # The state can be "CANCELLED by 1000".
        Component(state.partition(" ")[0], "", nodes.replace("None assigned", ""), 0, _exit_code(code), limit)
        for state, code, nodes, limit in (row for row in rows if len(row) == len(_ACCOUNTED))
    ]
    return [component for component in found if component.has_ended]


def _exit_code(text: str) -> int:
    return int(text.partition(":")[0] or 0)  # code:signal


@cache
def hostnames(nodes: str) -> list[str]:
    """Return the host names of a node list expression, e.g. `n[0-1]`."""
    return call(["scontrol", "show", "hostnames", nodes]).split() if nodes else []


def find(name: str) -> list[str]:
    """Return the ids of the caller's queued and running jobs of this name."""
    return call(["squeue", "--me", "--noheader", f"--name={name}", "--format=%A"]).split()


def end_jobs(name: str) -> None:
    """End the caller's jobs of this name with all their components. Raises OSError if a job remains in the queue."""
    jobs = find(name)
    for job in jobs:
        for words in (["--state=PENDING"], ["--ctld", "--signal=TERM"]):
            with suppress(SlurmError):  # the job has ended; if Slurm is down, the next command fails
                call(["scancel", *words, job])
    jobs = sorted(_wait(name, jobs, ASKED_SECONDS), key=int)
    for job in jobs:
        with suppress(SlurmError):  # the job has no step
            call(["scancel", "--signal=KILL", f"{job}.{_STEP}"])
    try:
        if jobs:
            call(["scancel", jobs[0]])
    except SlurmError as error:
        if not error.is_absence:
            raise
    if jobs := _wait(name, jobs, END_SECONDS):
        raise OSError(f"job {', '.join(jobs)} is still in the queue: scancel {' '.join(jobs)}")


def _wait(name: str, jobs: list[str], seconds: float) -> list[str]:
    until = clock.monotonic() + seconds
    while jobs and clock.monotonic() < until:
        clock.sleep(_POLL_SECONDS)
        left = find(name)
        jobs = [job for job in jobs if job in left]
    return jobs
