"""Manifests of a run: a PyTorchJob of the training-operator, a TrainJob of Kubeflow Trainer, or a plain Indexed Job.

For a TrainJob, Trainer creates a JobSet from the template in a TrainingRuntime, and sets torchrun's variables PET_* in
the container `node`. The JobSet creates an Indexed Job and a headless Service. Trainer's own runtimes set no
torchrun command and no security context, so each TrainJob gets its own runtime.

Sources: training-operator v1.9 (PyTorchJob CRD, pkg/controller.v1/pytorch/envvar.go), Trainer v2.2.1
(pkg/runtime/framework/plugins/torch and .../jobset, pkg/webhooks), JobSet v0.12.0 (pkg/webhooks, pkg/controllers), and
Kubernetes: indexed Jobs, the restricted Pod Security Standard, third_party/forked/golang/expansion.
"""

import re
import shlex
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from runner.core.errors import RequestError
from runner.core.network import variables_for
from runner.core.secrets import MASK
from runner.definitions.plan import Cell, Run
from runner.targets.base import option
from runner.targets.compose.service import WORKSPACE, image_of
from runner.targets.torchrun import MASTER_PORT, identity_of, node_command, node_environment

Object = dict[str, Any]
LABEL = "distributed-experiment-kit"
RUN = f"{LABEL}/run"
"""Annotation with a job's experiment and cell."""
KEPT_SECONDS = 86_400
"""How long the cluster keeps an ended job with its pods and logs."""
LONGEST_NAME = 44
"""Longest name of a job: JobSet limits names of pods, `<name>-node-0-<index>-<5 letters>`, to 63 characters."""
JOB_SUFFIX = "-node-0"
"""Suffix that JobSet appends to a TrainJob's name for the Job that it creates."""
COMES_TOO_SOON = "must be created before the TrainJob is created"
"""Phrase of Trainer's webhook for a TrainJob whose runtime is not in its cache, perhaps because it is new."""
CONTAINERS = CONTAINER, TRAINER_CONTAINER = "pytorch", "node"
"""Names that the training-operator and Kubeflow Trainer require for the container."""
USER = 1000
RENDEZVOUS_SECONDS = 900
"""How long nodes wait for each other, since some may have to pull the image."""
NAMED = {"HOME": "/tmp", "USER": "kit"}  # noqa: S108 - the pod's own
"""Variables for the pods' user, who may lack a name and a writable home in the image."""
_OF_A_USER = {
    "runAsNonRoot": True,
    "runAsUser": USER,
    "runAsGroup": USER,
    "fsGroup": USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}
_API = "trainer.kubeflow.org"
_INDEX = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}


@dataclass(frozen=True)
class Options:
    """Options of target kubernetes. Quantities are written as in Kubernetes, e.g. 500m or 8Gi."""

    job: Literal["pytorchjob", "trainjob", "indexed"] = option(
        "kind of job: pytorchjob needs the training-operator (v1), trainjob Kubeflow Trainer (v2); "
        "indexed, a plain Job, needs neither",
        "pytorchjob",
    )
    image: str = option("image of the pods (default: the project's image with the tag gpu or cpu)")
    namespace: str = option("namespace of the job (default: the context's)")
    context: str = option("context of the kubeconfig (default: the current one)")
    cpu: str = option("cores of each pod (default: request 250m and limit 2 per thread)")
    memory: str = option("memory of each pod (default: request 1Gi per process, limit 4Gi plus 4Gi per process)")
    shm_size: str = option("size of /dev/shm in each pod, which counts as memory of the pod", "1Gi")
    secret: str = option("Secret whose keys become environment variables of the pods, for example HF_TOKEN")
    data_claim: str = option("volume claim that contains data/ (default: an init container prepares the data)")


@dataclass(frozen=True)
class PodOptions(Options):
    """Options of target kubernetes, and the deadline of a job."""

    deadline_seconds: int | None = None
    """Seconds after which the cluster ends a job that its runner has not ended; None for jobs without a runner."""


def pytorchjob(run: Run, name: str, options: PodOptions) -> list[Object]:
    """Return a PyTorchJob: a Master (node 0) and Workers. Raises RequestError if Workers' process counts differ."""
    layout = run.cell.layout
    if len(set(layout.processes[1:])) > 1:
        raise RequestError(
            f"layout {layout}: the Workers of a PyTorchJob cannot have different process counts: use --with job=indexed"
        )
    replicas = {}
    for role, first, count in (("Master", 0, 1), ("Worker", 1, layout.nodes - 1)):
        if count:
            processes = layout.processes[first]
            template = _pod_template(run, _command(run.cell, processes), {}, processes, options)
            replicas[role] = {"replicas": count, "restartPolicy": "Never", "template": template}
    # Pods that the operator deletes at the job's end lose their logs and exit codes, even Workers that have ended but
    # are still reported as running. This loss does not matter if a runner follows every log.
    cleaned = "None" if options.deadline_seconds is None else "Running"
    policy = {"cleanPodPolicy": cleaned, **_times(options)}
    spec = {"nprocPerNode": str(layout.processes[0]), "runPolicy": policy, "pytorchReplicaSpecs": replicas}
    return [_job("kubeflow.org/v1", "PyTorchJob", name, run, spec)]


def indexed_job(run: Run, name: str, options: PodOptions) -> list[Object]:
    """Return a headless Service, for the DNS name of node 0, and a Job whose completion index is the node number."""
    nodes = run.cell.layout.nodes
    more = {"PET_NNODES": str(nodes), "PET_MASTER_ADDR": f"{name}-0.{name}", "PET_MASTER_PORT": str(MASTER_PORT)}
    spec = _indexed(run, more, options, CONTAINER)
    pod = spec["template"]["spec"]
    pod["containers"][0]["env"].append({"name": "PET_NODE_RANK", "valueFrom": _INDEX})
    pod["subdomain"] = name
    service = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"job-name": name}}
    job = _job("batch/v1", "Job", name, run, {"completions": nodes, "parallelism": nodes, **spec})
    return [_object("v1", "Service", name, service), job]


def trainjob(run: Run, name: str, options: PodOptions) -> list[Object]:
    """Return a TrainingRuntime, which defines a node, and a TrainJob, which sets the number of nodes.

    The command is in the runtime, because a command in a TrainJob may have at most 128 words. Only the inner Job has a
    time to live: if a failed TrainJob lost its JobSet, Trainer would run the TrainJob again.
    """
    version, layout = f"{_API}/v1alpha1", run.cell.layout
    steps = {"labels": {f"{_API}/trainjob-ancestor-step": "trainer"}}
    described = {"metadata": steps, "spec": _indexed(run, {}, options, TRAINER_CONTAINER)}
    jobs = [{"name": "node", "replicas": 1, "template": described}]
    spec = {"mlPolicy": {"torch": {}}, "template": {"spec": {"replicatedJobs": jobs}}}
    runtime = _object(version, "TrainingRuntime", name, spec)
    runtime["metadata"]["labels"][f"{_API}/framework"] = "torch"
    reference = {"apiGroup": _API, "kind": "TrainingRuntime", "name": name}
    size = {"numNodes": layout.nodes, "numProcPerNode": layout.processes[0]}
    return [runtime, _job(version, "TrainJob", name, run, {"runtimeRef": reference, "trainer": size})]


KINDS = {"pytorchjob": pytorchjob, "trainjob": trainjob, "indexed": indexed_job}
OBJECTS = {
    "pytorchjob": ("PyTorchJob",),
    "trainjob": ("TrainingRuntime", "TrainJob"),
    "indexed": ("Service", "Job"),
}
"""Kinds of a run's objects, the job last. The objects share one name."""
JOBS = tuple(kinds[-1] for kinds in OBJECTS.values())


def name_of(experiment: str, layout: str, run_id: str = "") -> str:
    """Return the name of a run's objects. It is a DNS label, short enough for pods' names that begin with it.

    If `run_id` is given, its last characters make the name unique.
    """
    suffix = f"-{run_id[-8:]}" if run_id else ""
    words = re.sub(r"[^a-z0-9]+", "-", f"{experiment}-{layout}".lower()).strip("-")
    words = words if words[:1].isalpha() else f"kit-{words}"
    return words[: LONGEST_NAME - len(suffix)].rstrip("-") + suffix


def pod_templates(document: Object) -> list[Object]:
    """Return the pod templates in an object. Returns [] if it has none."""
    spec = document.get("spec", {})
    if "pytorchReplicaSpecs" in spec:
        return [replica["template"] for replica in spec["pytorchReplicaSpecs"].values()]
    if document["kind"] == "TrainingRuntime":
        return [job["template"]["spec"]["template"] for job in spec["template"]["spec"]["replicatedJobs"]]
    return [spec["template"]] if "template" in spec else []


def _object(version: str, kind: str, name: str, spec: Object) -> Object:
    labels = {"app.kubernetes.io/name": LABEL, "app.kubernetes.io/instance": name}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": labels}, "spec": spec}


def _job(version: str, kind: str, name: str, run: Run, spec: Object) -> Object:
    job = _object(version, kind, name, spec)
    job["metadata"]["annotations"] = {RUN: identity_of(run)}
    return job


def _times(options: PodOptions) -> dict[str, int]:
    ends = {} if options.deadline_seconds is None else {"activeDeadlineSeconds": options.deadline_seconds}
    return {**ends, "ttlSecondsAfterFinished": KEPT_SECONDS}


def _indexed(run: Run, more: dict[str, str], options: PodOptions, container: str) -> Object:
    """Return the spec of an Indexed Job. If process counts differ, each pod finds its count by its index."""
    processes = run.cell.layout.processes
    command = _command(run.cell, processes[0])
    if len(set(processes)) > 1:
        words = shlex.join(command).replace(f"--nproc-per-node {processes[0]}", '--nproc-per-node "$1"', 1)
        shares = " ".join(map(str, processes))
        command = ["sh", "-c", f"set -- {shares}; shift $JOB_COMPLETION_INDEX; exec {words}"]
    template = _pod_template(run, command, {**more, "PYTHONUNBUFFERED": "1"}, max(processes), options, container)
    template["spec"]["restartPolicy"] = "Never"
    return {"completionMode": "Indexed", "backoffLimit": 0, **_times(options), "template": template}


def _command(cell: Cell, processes: int) -> list[str]:
    # The operator sets the same PET_NPROC_PER_NODE for all nodes.
    torchrun, *words = node_command(cell)
    return [torchrun, "--nproc-per-node", str(processes), *words]


def _environment(run: Run) -> dict[str, str]:
    """Return the environment variables of every pod, without those that the operator or the Job sets.

    Ranks print to the pod's log, because files do not outlive the pod. For programs without the kit's events, torchrun
    prefixes each line with the rank (`PET_TEE`).
    """
    cell = run.cell
    own = {name: value for name, value in node_environment(cell, run.device).items() if value != MASK}
    del own["PET_REDIRECTS"], own["PYTHONUNBUFFERED"]
    own |= {"PET_TEE": "3"} if run.experiment.dialects else {}
    network = variables_for("eth0") if cell.layout.nodes > 1 else {}
    network = {name: value for name, value in network.items() if name not in own}
    return {**NAMED, **own, "PET_RDZV_CONF": f"timeout={RENDEZVOUS_SECONDS}", **network}


def _pod_template(
    run: Run, command: list[str], more: dict[str, str], processes: int, options: PodOptions, name: str = CONTAINER
) -> Object:
    settings, data = run.experiment.settings, run.experiment.data
    memory = {"medium": "Memory", "sizeLimit": options.shm_size}
    places = {"shm": "/dev/shm", "tmp": "/tmp"}  # noqa: S108 - the pod's own
    volumes: list[Object] = [{"name": "shm", "emptyDir": memory}, {"name": "tmp", "emptyDir": {}}]
    if data or options.data_claim:
        places["data"] = f"{WORKSPACE}/data"
        claim = {"persistentVolumeClaim": {"claimName": options.data_claim, "readOnly": True}}
        volumes.append({"name": "data", **(claim if options.data_claim else {"emptyDir": {}})})
    base = {
        "image": options.image or image_of(settings.image, run.device),
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            # Programs outside the kit may write to the working directory.
            "readOnlyRootFilesystem": not (settings.image or run.cell.program.files),
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": place, "mountPath": path} for place, path in places.items()],
    }
    pod: Object = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 60,
        "securityContext": _OF_A_USER,
    }
    if data and not options.data_claim:  # on failure, the program itself reports the missing data
        prepare, few = ["sh", "-c", f"runner prepare {data} || true"], {"cpu": "250m", "memory": "512Mi"}
        resources = {"requests": few, "limits": {"cpu": "1", "memory": "2Gi"}}
        pod["initContainers"] = [_container("data", base, prepare, NAMED, resources)]
    resources = _resources(run, processes, options)
    pod["containers"] = [_container(name, base, command, {**_environment(run), **more}, resources)]
    if options.secret:
        pod["containers"][0]["envFrom"] = [{"secretRef": {"name": options.secret}}]
    pod["volumes"] = volumes
    # A service mesh's proxy would never end, and neither would the job.
    return {"metadata": {"annotations": {"sidecar.istio.io/inject": "false"}}, "spec": pod}


def _container(name: str, base: Object, command: list[str], environment: dict[str, str], resources: Object) -> Object:
    """Return a container's spec. `$` is escaped: Kubernetes would replace `$(NAME)` by a variable, and `$$` by `$`."""
    literal = partial(re.sub, r"\$(?=[$(])", "$$")
    env = [{"name": key, "value": literal(value)} for key, value in environment.items()]
    return {"name": name, **base, "command": [*map(literal, command)], "env": env, "resources": resources}


def _resources(run: Run, processes: int, options: PodOptions) -> dict[str, dict[str, str]]:
    cores = processes * run.cell.threads_per_process
    # By default, requests are low, for small clusters, and limits higher.
    requests = {"cpu": options.cpu or f"{250 * cores}m", "memory": options.memory or f"{processes}Gi"}
    limits = {"cpu": options.cpu or str(2 * cores), "memory": options.memory or f"{4 + 4 * processes}Gi"}
    gpus = str(processes * run.cell.devices_per_process)
    own = {"nvidia.com/gpu": gpus} if run.device == "cuda" else {}
    return {"requests": requests | own, "limits": limits | own}
