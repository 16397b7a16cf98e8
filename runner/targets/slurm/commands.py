"""Slurm's own commands, each with a time limit.

Slurm gives a job that is cancelled its KillWait, 30 s, before it kills what does not listen, and takes no other signal
for it meanwhile. So the steps of a job are signalled first, and what is left of it is cancelled then.
"""

import os
import re
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

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
ENDED = (
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",
    "TIMEOUT",
)  # fmt: skip
_GONE = "Invalid job id"
_ACCOUNTED = ("JobIDRaw", "State", "ExitCode", "NodeList", "Timelimit")
_NAMES = re.compile(r"^(?:\w+: )?(?:(?:error|fatal|allocation failure|Batch job submission failed|slurm_\w+ error): )*")
"""What stands before the words of a complaint: the command's name, and its kind."""
_FIELD = re.compile(r"(?:^| )([A-Za-z][\w/:]{0,40})=(\S*)")


class SlurmError(OSError):
    """A command of Slurm failed or did not answer; `is_absence` if Slurm knows no such job."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.is_absence = _GONE in text


@dataclass(frozen=True)
class Component:
    """One component of a job, or all of it, as `scontrol show job` describes it."""

    number: str
    """Its job id; each component of a heterogeneous job has one."""
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
    """Its time limit, as Slurm writes it."""

    @property
    def has_ended(self) -> bool:
        """Whether it has left the queue."""
        return self.state in ENDED


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
        printed, complaint = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        with process:
            process.kill()
        raise SlurmError(f"{name} gave no answer in {seconds:.0f} s: is slurmctld up? scontrol ping") from None
    if process.returncode:
        lines = [_NAMES.sub("", one_line(line, 300)) for line in complaint.decode("utf-8", "replace").splitlines()]
        said = "; ".join(dict.fromkeys(filter(None, lines)))
        raise SlurmError(said or f"{name} exited with {process.returncode} and printed nothing")
    return printed.decode("utf-8", "replace")


def call(words: list[str], text: str = "", seconds: float | None = None) -> str:
    """Run a command and return what it printed; SlurmError if it fails."""
    return finish(words[0], begin(words, text), seconds)


def show(job: str) -> list[Component]:
    """Describe a job, component by component; SlurmError if Slurm does not know it any more."""
    found = []
    for line in call(["scontrol", "--oneliner", "show", "job", job]).split("\n"):
        if not line:
            continue
        fields: dict[str, str] = {}
        for name, value in _FIELD.findall(line):
            fields.setdefault(name, "" if value in ("None", "(null)") else value)
        found.append(
            Component(
                fields["JobId"],
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
        Component(number, state.partition(" ")[0], "", nodes.replace("None assigned", ""), 0, _exit_code(code), limit)
        for number, state, code, nodes, limit in (row for row in rows if len(row) == len(_ACCOUNTED))
    ]
    return [component for component in found if component.has_ended]


def _exit_code(text: str) -> int:
    """Read the exit code of `code:signal`."""
    code = text.partition(":")[0]
    return int(code) if code.isdecimal() else 0


@cache
def hostnames(nodes: str) -> list[str]:
    """Expand a list expression, for example `n[0-1]`; asks no daemon."""
    return call(["scontrol", "show", "hostnames", nodes]).split() if nodes else []


def find(name: str) -> list[str]:
    """Return the ids of the caller's jobs of a name in the queue."""
    return call(["squeue", "--me", "--noheader", f"--name={name}", "--format=%A"]).split()


def ask(job: str) -> None:
    """Cancel a job that waits, and send SIGTERM to the processes of one that runs."""
    with suppress(SlurmError):  # it has ended, or Slurm does not answer: `kill` says so
        call(["scancel", "--state=PENDING", job])
    with suppress(SlurmError):
        call(["scancel", "--ctld", "--signal=TERM", job])


def kill(jobs: list[str]) -> None:
    """Send SIGKILL to the processes of a job's components, and cancel it; SlurmError if Slurm does not answer."""
    for job in jobs:
        with suppress(SlurmError):  # it has no step
            call(["scancel", "--signal=KILL", f"{job}.{_STEP}"])
    try:
        call(["scancel", jobs[0]])
    except SlurmError as error:
        if not error.is_absence:
            raise


def end_jobs(name: str) -> None:
    """End the caller's jobs of a name: asked, then killed; OSError if they stay in the queue.

    Each component of a heterogeneous job is a job of that name.
    """
    jobs = find(name)
    for job in jobs:
        ask(job)
    jobs = _wait(name, jobs, ASKED_SECONDS)
    if jobs:
        kill(sorted(jobs, key=int))
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
