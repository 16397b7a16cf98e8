"""A layout as a TrainJob of Kubeflow Trainer v2, with a TrainingRuntime of its own.

Trainer makes a JobSet of the runtime's template, sets PET_NNODES, PET_NPROC_PER_NODE, PET_NODE_RANK, PET_MASTER_ADDR
and PET_MASTER_PORT in the container `node`, and leaves the rest to JobSet: an Indexed Job and a headless Service. The
runtimes that come with Trainer say neither how torchrun is called nor what a pod may do, so each job brings its own.

Sources: Trainer v2.2.1 (pkg/runtime/framework/plugins/torch and .../jobset, pkg/webhooks) and JobSet v0.12.0
(pkg/webhooks, pkg/controllers).
"""

from __future__ import annotations

from typing import Any

from runner.definitions.plan import Run
from runner.targets.kubernetes.job import KEPT_SECONDS, check_name, command_by_index, deadline, labels, metadata
from runner.targets.kubernetes.pod_spec import TRAINER_CONTAINER, PodOptions, environment_of, pod_template

LONGEST_NAME = 44
"""A pod is called `<name>-node-0-<index>-<5 letters>`, which JobSet refuses beyond 63 characters."""
JOB_SUFFIX = "-node-0"
"""What JobSet adds to the name of a TrainJob for the Job that it makes."""
COMES_TOO_SOON = "must be created before the TrainJob is created"
"""Words of Trainer's webhook about a TrainJob whose runtime it does not know, or not yet: it reads a cache."""
_API = "trainer.kubeflow.org"
_VERSION = f"{_API}/v1alpha1"


def trainjob(run: Run, name: str, options: PodOptions) -> list[dict[str, Any]]:
    """Describe a TrainingRuntime, which says what a node is, and a TrainJob, which says how many there are.

    The command stands in the runtime: a TrainJob's may have 128 words. Nothing is started again. The Job inside, not
    the JobSet, is removed a day after its end: Trainer would run a TrainJob that failed again without its JobSet.
    """
    check_name(name, LONGEST_NAME)
    cell, processes = run.cell, run.cell.layout.processes
    environment = {**environment_of(run), "PYTHONUNBUFFERED": "1"}
    template = pod_template(run, command_by_index(cell), environment, max(processes), options, TRAINER_CONTAINER)
    template["spec"] = {**template["spec"], "restartPolicy": "Never"}
    job = {
        "completionMode": "Indexed",
        "backoffLimit": 0,
        **deadline(options),
        "ttlSecondsAfterFinished": KEPT_SECONDS,
        "template": template,
    }
    steps = {"labels": {f"{_API}/trainjob-ancestor-step": "trainer"}}
    node = {"name": "node", "replicas": 1, "template": {"metadata": steps, "spec": job}}
    runtime = {
        "apiVersion": _VERSION,
        "kind": "TrainingRuntime",
        "metadata": {"name": name, "labels": {**labels(name), f"{_API}/framework": "torch"}},
        "spec": {"mlPolicy": {"torch": {}}, "template": {"spec": {"replicatedJobs": [node]}}},
    }
    reference = {"apiGroup": _API, "kind": "TrainingRuntime", "name": name}
    size = {"numNodes": cell.layout.nodes, "numProcPerNode": processes[0]}
    trains = {
        "apiVersion": _VERSION,
        "kind": "TrainJob",
        "metadata": metadata(run, name),
        "spec": {"runtimeRef": reference, "trainer": size},
    }
    return [runtime, trains]
