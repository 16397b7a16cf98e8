"""A layout as a job: a PyTorchJob of the training-operator, a TrainJob of Kubeflow Trainer, or a plain Indexed Job.

Trainer makes a JobSet of the runtime's template, sets PET_NNODES, PET_NPROC_PER_NODE, PET_NODE_RANK, PET_MASTER_ADDR
and PET_MASTER_PORT in the container `node`, and leaves the rest to JobSet: an Indexed Job and a headless Service. The
runtimes that come with Trainer say neither how torchrun is called nor what a pod may do, so each job brings its own.

Sources: the PyTorchJob CRD and the variables that training-operator v1.9 gives its pods
(pkg/controller.v1/pytorch/envvar.go); the Job API's indexed completions; Trainer v2.2.1
(pkg/runtime/framework/plugins/torch and .../jobset, pkg/webhooks) and JobSet v0.12.0 (pkg/webhooks, pkg/controllers).
"""

import json
import re
import shlex
from typing import Any

from runner.core.errors import RequestError
from runner.definitions.plan import Cell, Run
from runner.targets.kubernetes.pod_spec import (
    CONTAINER,
    TRAINER_CONTAINER,
    PodOptions,
    command_of,
    environment_of,
    pod_template,
)
from runner.targets.torchrun import MASTER_PORT

Object = dict[str, Any]
LABEL = "distributed-experiment-kit"
RUN = f"{LABEL}/run"
"""The annotation that says which cell of which experiment a job is."""
RUN_ID = f"{LABEL}/run-id"
"""The annotation of everything that a runner makes for a run: the run's id."""
KEPT_SECONDS = 86_400
"""How long a job that has ended is kept, with its pods and their logs."""
LONGEST_NAME = 50
LONGEST_TRAINJOB = 44
"""A pod is called `<name>-node-0-<index>-<5 letters>`, which JobSet refuses beyond 63 characters."""
JOB_SUFFIX = "-node-0"
"""What JobSet adds to the name of a TrainJob for the Job that it makes."""
COMES_TOO_SOON = "must be created before the TrainJob is created"
"""Words of Trainer's webhook about a TrainJob whose runtime it does not know, or not yet: it reads a cache."""
_API = "trainer.kubeflow.org"
_VERSION = f"{_API}/v1alpha1"
_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


def pytorchjob(run: Run, name: str, options: PodOptions) -> list[Object]:
    """Describe a job of the training-operator: a Master, which is node 0, and equal Workers.

    Raises RequestError for layouts that have a third shape of node.
    """
    layout = run.cell.layout
    if len(set(layout.processes[1:])) > 1:
        raise RequestError(
            f"layout {layout}: a PyTorchJob has two shapes of node, Master and Worker: use --with job=indexed"
        )
    replicas = {}
    for role, node, count in (("Master", 0, 1), ("Worker", 1, layout.nodes - 1)):
        if count:
            command, processes = command_of(run.cell, layout.processes[node]), layout.processes[node]
            template = pod_template(run, command, environment_of(run), processes, options)
            replicas[role] = {"replicas": count, "restartPolicy": "Never", "template": template}
    # A pod that the operator deletes at the job's end takes its log and exit code with it. It takes a Worker for
    # running whose end it has not heard of when it hears of the Master's: no loss where a runner follows every log.
    cleaned = "None" if options.deadline_seconds is None else "Running"
    policy = {"cleanPodPolicy": cleaned, **_times(options)}
    spec = {"nprocPerNode": str(layout.processes[0]), "runPolicy": policy, "pytorchReplicaSpecs": replicas}
    return [_job("kubeflow.org/v1", "PyTorchJob", name, run, spec)]


def indexed_job(run: Run, name: str, options: PodOptions) -> list[Object]:
    """Describe a headless Service, by which the pods find node 0, and a Job whose index is the node's number."""
    nodes = run.cell.layout.nodes
    told = {"PET_NNODES": str(nodes), "PET_MASTER_ADDR": f"{name}-0.{name}", "PET_MASTER_PORT": str(MASTER_PORT)}
    described = _indexed(run, told, options)
    pod = described["template"]["spec"]
    pod["containers"][0]["env"].append({"name": "PET_NODE_RANK", "valueFrom": {"fieldRef": {"fieldPath": _INDEX}}})
    pod["subdomain"] = name
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": _labels(name)},
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"job-name": name}},
    }
    return [service, _job("batch/v1", "Job", name, run, {"completions": nodes, "parallelism": nodes, **described})]


def trainjob(run: Run, name: str, options: PodOptions) -> list[Object]:
    """Describe a TrainingRuntime, which says what a node is, and a TrainJob, which says how many there are.

    The command stands in the runtime: a TrainJob's may have 128 words. Nothing is started again. The Job inside, not
    the JobSet, is removed a day after its end: Trainer would run a TrainJob that failed again without its JobSet.
    """
    layout = run.cell.layout
    steps = {"labels": {f"{_API}/trainjob-ancestor-step": "trainer"}}
    described = {"metadata": steps, "spec": _indexed(run, {}, options, TRAINER_CONTAINER)}
    jobs = [{"name": "node", "replicas": 1, "template": described}]
    runtime = {
        "apiVersion": _VERSION,
        "kind": "TrainingRuntime",
        "metadata": {"name": name, "labels": {**_labels(name), f"{_API}/framework": "torch"}},
        "spec": {"mlPolicy": {"torch": {}}, "template": {"spec": {"replicatedJobs": jobs}}},
    }
    reference = {"apiGroup": _API, "kind": "TrainingRuntime", "name": name}
    size = {"numNodes": layout.nodes, "numProcPerNode": layout.processes[0]}
    return [runtime, _job(_VERSION, "TrainJob", name, run, {"runtimeRef": reference, "trainer": size})]


def _indexed(run: Run, told: dict[str, str], options: PodOptions, container: str = CONTAINER) -> Object:
    """Return what every Job with an index for each node says of its pods, none of which is started again."""
    environment = {**environment_of(run), **told, "PYTHONUNBUFFERED": "1"}
    most = max(run.cell.layout.processes)
    template = pod_template(run, command_by_index(run.cell), environment, most, options, container)
    template["spec"]["restartPolicy"] = "Never"
    return {"completionMode": "Indexed", "backoffLimit": 0, **_times(options), "template": template}


def command_by_index(cell: Cell) -> list[str]:
    """Return a command for the pods of one template, whose index in the Job is the node's number."""
    processes = cell.layout.processes
    command = command_of(cell, processes[0])
    if len(set(processes)) == 1:
        return command
    # Each takes its own number of processes from the list.
    shares = " ".join(map(str, processes))
    words = shlex.join(command).replace(f"--nproc-per-node {processes[0]}", '--nproc-per-node "$1"', 1)
    return ["sh", "-c", f"set -- {shares}; shift $JOB_COMPLETION_INDEX; exec {words}"]


def pod_templates(document: Object) -> list[Object]:
    """Return the templates of the pods that an object describes; only a job and a runtime describe any."""
    spec = document.get("spec", {})
    if "pytorchReplicaSpecs" in spec:
        return [replica["template"] for replica in spec["pytorchReplicaSpecs"].values()]
    template = spec.get("template")
    if template and document["kind"] == "TrainingRuntime":
        return [job["template"]["spec"]["template"] for job in template["spec"]["replicatedJobs"]]
    return [template] if template else []


def _job(version: str, kind: str, name: str, run: Run, spec: Object) -> Object:
    """Describe a job, with the annotation that says what it runs."""
    cell = run.cell
    what = {
        "experiment": run.experiment.name,
        "program": cell.program.name,
        "layout": str(cell.layout),
        "device": run.device,
        "axes": cell.axes,
        "args": cell.args,
    }
    metadata = {"name": name, "labels": _labels(name), "annotations": {RUN: json.dumps(what)}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": LABEL, "app.kubernetes.io/instance": name}


def _times(options: PodOptions) -> dict[str, int]:
    """Return when the cluster ends a job which its runner does not, and how long it is kept after its end."""
    ends = {} if options.deadline_seconds is None else {"activeDeadlineSeconds": options.deadline_seconds}
    return {**ends, "ttlSecondsAfterFinished": KEPT_SECONDS}


KINDS = {"pytorchjob": pytorchjob, "trainjob": trainjob, "indexed": indexed_job}
"""What describes the objects of a run."""
OBJECTS = {
    "pytorchjob": ("PyTorchJob",),
    "trainjob": ("TrainingRuntime", "TrainJob"),
    "indexed": ("Service", "Job"),
}
"""The kinds of these objects, all of one name; the last is the job."""
JOBS = tuple(kinds[-1] for kinds in OBJECTS.values())
"""The kinds of the jobs."""


def name_of(kind: str, experiment: str, layout: str, run_id: str = "") -> str:
    """Return the name of a run's objects, a DNS label that leaves room for those of its pods; a long one is cut.

    The last letters of the id of a run that is started make it unique; without an id it is what `--dry-run` shows.
    """
    suffix = f"-{run_id[-8:]}" if run_id else ""
    words = re.sub(r"[^a-z0-9]+", "-", f"{experiment}-{layout}".lower()).strip("-")
    words = words if words[:1].isalpha() else f"kit-{words}"
    longest = LONGEST_TRAINJOB if kind == "trainjob" else LONGEST_NAME
    return words[: longest - len(suffix)].rstrip("-") + suffix
