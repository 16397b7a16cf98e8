"""A real Slurm for the tests: what is asked of it, and what a job of it is."""

import os
import shutil
import subprocess


def slurm(*words: str) -> str:
    """Run one of Slurm's commands; what it printed."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def jobs_of(run: str) -> list[str]:
    """The ids of a run's jobs that are in the queue."""
    return slurm("squeue", "--noheader", f"--name=kit-{run}", "--format=%A").split()


def limits_memory() -> bool:
    """Whether a job that takes more memory than it asked for is ended."""
    found = [
        line.split() for line in slurm("scontrol", "show", "config").splitlines() if line.startswith("TaskPlugin ")
    ]
    return any("task/cgroup" in word for words in found for word in words)


def missing_for_slurm_tests() -> str | None:
    """Look for a Slurm that answers; SLURM_CONF has to name it, so that no cluster of a user is taken for it."""
    if "SLURM_CONF" not in os.environ:
        return "SLURM_CONF names no Slurm"
    if shutil.which("sinfo") is None:
        return "there is no sinfo here"
    done = subprocess.run(["sinfo", "--noheader"], capture_output=True, text=True, check=False)
    return done.stderr.strip().splitlines()[0] if done.returncode else None
