"""Commands of a real Slurm, for tests."""

import os
import re
import shutil
import subprocess


def slurm(*words: str) -> str:
    """Return the output of one of Slurm's commands."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def jobs_of(run: str) -> list[str]:
    """Return the ids of a run's jobs in the queue."""
    return slurm("squeue", "--noheader", f"--name=kit-{run}", "--format=%A").split()


def limits_memory() -> bool:
    return bool(re.search("(?m)^TaskPlugin .*task/cgroup", slurm("scontrol", "show", "config")))


def missing_for_slurm_tests() -> str | None:
    """Return why the Slurm of SLURM_CONF cannot be used; it must be set, so that no user's cluster is used."""
    if "SLURM_CONF" not in os.environ:
        return "SLURM_CONF names no Slurm"
    if shutil.which("sinfo") is None:
        return "there is no sinfo here"
    done = subprocess.run(["sinfo", "--noheader"], capture_output=True, text=True, check=False)
    return done.stderr.strip().splitlines()[0] if done.returncode else None
