"""The ways to start pods, by the values of the option `job`: what each makes, and what it needs of a cluster."""

from __future__ import annotations

from runner.targets.kubernetes import trainjob
from runner.targets.kubernetes.job import LONGEST_NAME, indexed_job, job_name, pytorchjob

KINDS = {"pytorchjob": pytorchjob, "trainjob": trainjob.trainjob, "indexed": indexed_job}
"""What describes the objects of a run."""
OBJECTS = {
    "pytorchjob": ("PyTorchJob",),
    "trainjob": ("TrainingRuntime", "TrainJob"),
    "indexed": ("Service", "Job"),
}
"""The kinds of these objects, all of one name; the last is the job."""
JOBS = tuple(kinds[-1] for kinds in OBJECTS.values())
"""The kinds of the jobs."""
_LONGEST = {"trainjob": trainjob.LONGEST_NAME}


def name_of(kind: str, experiment: str, layout: str, run_id: str = "") -> str:
    """Return the name of the objects of a run, or without a run's id that which `--dry-run` shows."""
    return job_name(experiment, layout, run_id, _LONGEST.get(kind, LONGEST_NAME))
