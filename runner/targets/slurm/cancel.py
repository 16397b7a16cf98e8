"""Jobs are taken out of the queue: asked to end, then killed.

Slurm itself would give a job that is cancelled its KillWait, 30 s, before it kills what does not listen, and takes no
other signal for it meanwhile. So the steps of a job are signalled first, and what is left of it is cancelled then.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from runner.core import clock
from runner.targets.slurm import commands
from runner.targets.slurm.commands import SlurmError

ASKED_SECONDS = 4.0
"""How long a job may take to end when it is asked to; then it is killed."""
_POLL_SECONDS = 2.0
_STEP = 0
"""The step of a job that runs its processes: the first one that its script starts."""


def ask(job: str) -> None:
    """Take a job that waits out of the queue, and send SIGTERM to the processes of one that runs."""
    with suppress(SlurmError):  # it has ended, or Slurm does not answer: `kill` says so
        commands.call(["scancel", "--state=PENDING", job])
    with suppress(SlurmError):
        commands.call(["scancel", "--ctld", "--signal=TERM", job])


def kill(components: Sequence[str]) -> None:
    """Send SIGKILL to the processes of a job, and cancel what is left; SlurmError if Slurm does not answer.

    Args:
        components: the numbers of its components, that of the job first.
    """
    for number in components:
        with suppress(SlurmError):  # it has none
            commands.call(["scancel", "--signal=KILL", f"{number}.{_STEP}"])
    for number in components[:1]:
        try:
            commands.call(["scancel", number])
        except SlurmError as error:
            if not error.is_absence:
                raise


def end_jobs(name: str, folder: Path) -> None:
    """End the caller's jobs of a run: asked to end, then killed.

    A record may be a copy, or come from a stranger: jobs that another folder's run has submitted go on.

    Args:
        name: the name of its jobs.
        folder: the run's folder.

    Raises OSError if they stay in the queue, or are another folder's.
    """
    found = commands.find(name)
    jobs = list(found)
    if jobs and commands.comment(folder) not in found.values():  # one component of a job may be all that has it
        raise OSError(
            f"job {', '.join(jobs)} has its name, and was submitted for another folder: scancel {' '.join(jobs)}"
        )
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
        left = commands.find(name)
        jobs = [job for job in jobs if job in left]
    return jobs
