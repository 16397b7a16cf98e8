"""Slurm's own commands, each with a limit of time; what they print is read, never run.

Slurm itself would give a job that is cancelled its KillWait, 30 s, before it kills what does not listen, and takes no
other signal for it meanwhile. So the steps of a job are signalled first, and what is left of it is cancelled then.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from runner.core import clock
from runner.core.text import one_line
from runner.targets.clean_environment import clean_environment

SECONDS = 30.0
"""How long a command may take: slurmctld may be busy, or gone, which takes its own time-outs to be seen."""
ASKED_SECONDS = 4.0
"""How long a job may take to end when it is asked to; then it is killed."""
_POLL_SECONDS = 2.0
_STEP = 0
"""The step of a job that runs its processes: the first one that its script starts."""
NEEDED = ("sbatch", "scontrol", "scancel", "squeue")
ENDED = (
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",
    "TIMEOUT",
)  # fmt: skip
_GONE = "Invalid job id"
_ID = re.compile(r"(\d{1,12})(?:;[^\n]*)?")
_ACCOUNTED = ("JobIDRaw", "State", "ExitCode", "NodeList", "Timelimit")
_FIELD = re.compile(r"(?:^| )([A-Za-z][\w/:]{0,40})=(\S*)")


class SlurmError(OSError):
    """A command of Slurm refused, failed, or did not answer; `is_absence` if it knows no such job."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.is_absence = _GONE in text


@dataclass(frozen=True)
class Component:
    """One component of a job, or all of it, as `scontrol show job` describes it."""

    number: str
    """Its own job id; of a heterogeneous job each component has one."""
    state: str
    """One word of squeue(1), JOB STATE CODES."""
    reason: str
    """Why it waits or ended; empty if Slurm gives none."""
    nodes: str
    """The names of its nodes as a list expression, for example `n[0-3]`; empty before it starts."""
    restarts: int
    exit_code: int
    """That of the script, 0 if it was killed."""
    limit: str
    """Its limit of time, as Slurm writes it."""

    @property
    def has_ended(self) -> bool:
        """Whether it has left the queue."""
        return self.state in ENDED


def environment(**more: str) -> dict[str, str]:
    """Return the caller's environment, less what a job or another launcher may have left in it."""
    kept = {name: os.environ[name] for name in ("SLURM_CONF", "SLURM_CLUSTERS") if name in os.environ}
    return {**clean_environment("SLURM_", "SBATCH_", "SCANCEL_", "SQUEUE_"), **kept, **more}


def call(words: list[str], text: str = "", seconds: float | None = None) -> str:
    """Run a command and return what it printed; SlurmError with Slurm's own words if it fails."""
    seconds = seconds or SECONDS
    try:
        done = subprocess.run(
            words,
            input=text.encode("utf-8", "surrogateescape"),
            capture_output=True,
            timeout=seconds,
            check=False,
            env=environment(),
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        raise SlurmError(f"{words[0]} gave no answer in {seconds:.0f} s: is slurmctld up? scontrol ping") from None
    except OSError as error:
        raise SlurmError(f"{words[0]} cannot be run: {error.strerror}") from None
    if done.returncode:
        raise SlurmError(said(done.stderr) or f"{words[0]} exited with {done.returncode} and printed nothing")
    return done.stdout.decode("utf-8", "replace")


def said(stderr: bytes) -> str:
    """Return what a command complained of, once, without the names of the command and of its level."""
    lines = [one_line(line, 300) for line in stderr.decode("utf-8", "replace").splitlines()]
    words = [re.sub(r"^\w+: (?:(?:error|fatal|allocation failure): )*", "", line) for line in lines if line]
    words = [
        re.sub(r"^Batch job submission failed: |^allocation failure: |^slurm_\w+ error: ", "", word) for word in words
    ]
    return "; ".join(dict.fromkeys(words))


def submitted(printed: str) -> str:
    """Read the id of a job that `sbatch --parsable` has submitted."""
    if not (found := _ID.fullmatch(printed.strip())):
        raise SlurmError(f"sbatch printed no job id: {one_line(printed, 200)}")
    return found[1]


def show(job: str) -> list[Component]:
    """Ask for a job, one component after the other; SlurmError if Slurm does not know it any more."""
    return [_component(line) for line in call(["scontrol", "--oneliner", "show", "job", job]).splitlines() if line]


def show_accounted(job: str) -> list[Component]:
    """Ask Slurm's accounting for a job that it has forgotten otherwise; nothing if it keeps none, or has none yet."""
    if shutil.which("sacct") is None:
        return []
    words = ["sacct", f"--jobs={job}", "--allocations", "--noheader", "--parsable2"]
    try:
        printed = call([*words, f"--format={','.join(_ACCOUNTED)}"])
    except SlurmError:  # it is disabled, or its daemon does not answer
        return []
    found = []
    for row in (line.split("|") for line in printed.splitlines()):
        if len(row) != len(_ACCOUNTED):
            continue
        number, state, code, nodes, limit = row
        names = "" if nodes == "None assigned" else nodes
        word = state.partition(" ")[0]  # it can be "CANCELLED by 1000"
        found.append(Component(number, word, "", names, 0, _exit_code(code), limit))
    return [component for component in found if component.has_ended]


def _exit_code(text: str) -> int:
    """Read the exit code of `code:signal`; 0 for what is none."""
    code = text.partition(":")[0]
    return int(code) if code.isdecimal() else 0


def _component(line: str) -> Component:
    fields: dict[str, str] = {}
    for name, value in _FIELD.findall(line):
        fields.setdefault(name, value)
    nodes, reason = fields.get("NodeList", ""), fields.get("Reason", "")
    return Component(
        number=fields.get("JobId", ""),
        state=fields.get("JobState", ""),
        reason="" if reason in ("None", "(null)") else reason,
        nodes="" if nodes == "(null)" else nodes,
        restarts=int(fields.get("Restarts", 0)),
        exit_code=_exit_code(fields.get("ExitCode", "")),
        limit=fields.get("TimeLimit", ""),
    )


@cache
def hostnames(nodes: str) -> list[str]:
    """Write out a list expression, for example `n[0-1]`; asks no daemon."""
    return call(["scontrol", "show", "hostnames", nodes]).split() if nodes else []


def find(name: str) -> list[str]:
    """Return the ids of the caller's own jobs of a name that are in the queue."""
    return call(["squeue", "--me", "--noheader", f"--name={name}", "--format=%A"]).split()


def ask(job: str) -> None:
    """Take a job that waits out of the queue, and send SIGTERM to the processes of one that runs."""
    with suppress(SlurmError):  # it has ended, or Slurm does not answer: `kill` says so
        call(["scancel", "--state=PENDING", job])
    with suppress(SlurmError):
        call(["scancel", "--ctld", "--signal=TERM", job])


def kill(components: Sequence[str]) -> None:
    """Send SIGKILL to the processes of a job, and cancel what is left; SlurmError if Slurm does not answer.

    A job is given by the numbers of its components, its own first.
    """
    for number in components:
        with suppress(SlurmError):  # it has none
            call(["scancel", "--signal=KILL", f"{number}.{_STEP}"])
    for number in components[:1]:
        try:
            call(["scancel", number])
        except SlurmError as error:
            if not error.is_absence:
                raise


def end_jobs(name: str) -> None:
    """End the caller's jobs of a run: asked to end, then killed; OSError if they stay in the queue."""
    jobs = find(name)
    for job in jobs:
        ask(job)
    jobs = _wait(name, jobs, ASKED_SECONDS)
    if jobs:
        kill(sorted(jobs, key=int))
        jobs = _wait(name, jobs, 3 * ASKED_SECONDS)
    if jobs:
        raise OSError(f"job {', '.join(jobs)} does not leave the queue: scancel {' '.join(jobs)}")


def _wait(name: str, jobs: list[str], seconds: float) -> list[str]:
    """Wait until jobs of a name have left the queue, at most so long; return those that are left."""
    until = clock.monotonic() + seconds
    while jobs and clock.monotonic() < until:
        clock.sleep(_POLL_SECONDS)
        left = find(name)
        jobs = [job for job in jobs if job in left]
    return jobs
