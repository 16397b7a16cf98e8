"""A layout as a job: a PyTorchJob of the training-operator, a TrainJob of Kubeflow Trainer, or a plain Indexed Job.

Trainer makes a JobSet of the runtime's template, sets PET_NNODES, PET_NPROC_PER_NODE, PET_NODE_RANK, PET_MASTER_ADDR
and PET_MASTER_PORT in the container `node`, and leaves the rest to JobSet: an Indexed Job and a headless Service. The
runtimes that come with Trainer say neither how torchrun is called nor what a pod may do, so each job brings its own.

Sources: the PyTorchJob CRD and the variables that training-operator v1.9 gives its pods
(pkg/controller.v1/pytorch/envvar.go); the Job API's indexed completions; Trainer v2.2.1
(pkg/runtime/framework/plugins/torch and .../jobset, pkg/webhooks) and JobSet v0.12.0 (pkg/webhooks, pkg/controllers);
the Pod Security Standards, to whose restricted level the pods keep; the expansion of `$(NAME)` in a container's command
and environment (kubernetes/third_party/forked/golang/expansion).
"""

import re
import shlex
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from runner.core.errors import RequestError
from runner.core.network import variables_for
from runner.definitions.plan import Cell, Run
from runner.targets.base import option
from runner.targets.compose.service import WORKSPACE, image_of
from runner.targets.torchrun import MASTER_PORT, identity_of, node_command, node_environment

Object = dict[str, Any]
LABEL = "distributed-experiment-kit"
RUN = f"{LABEL}/run"
"""The annotation that says which cell of which experiment a job is."""
KEPT_SECONDS = 86_400
"""How long a job that has ended is kept, with its pods and their logs."""
LONGEST_NAME = 44
"""A TrainJob's pod is called `<name>-node-0-<index>-<5 letters>`, which JobSet refuses beyond 63 characters."""
JOB_SUFFIX = "-node-0"
"""What JobSet adds to the name of a TrainJob for the Job that it makes."""
COMES_TOO_SOON = "must be created before the TrainJob is created"
"""Words of Trainer's webhook about a TrainJob whose runtime it does not know, or not yet: it reads a cache."""
CONTAINERS = CONTAINER, TRAINER_CONTAINER = "pytorch", "node"
"""The names that the training-operator and Kubeflow Trainer look for."""
USER = 1000
RENDEZVOUS_SECONDS = 900
"""How long nodes wait for each other: one may pull the image while another has it."""
NAMED = {"HOME": "/tmp", "USER": "kit"}  # noqa: S108 - the pod's own
"""Any image runs as this user, of whom its passwd may know neither the name nor a home that can be written to."""
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
    """The options of target kubernetes; quantities as Kubernetes writes them, for example 500m or 8Gi."""

    job: Literal["pytorchjob", "trainjob", "indexed"] = option(
        "pytorchjob needs the training-operator (v1), trainjob Kubeflow Trainer (v2); "
        "indexed, a plain Job, needs neither",
        "pytorchjob",
    )
    image: str = option("image of the pods; by default the project's, with the tag gpu or cpu")
    namespace: str = option("namespace of the job; by default that of the context")
    context: str = option("context of the kubeconfig; by default the current one")
    cpu: str = option("cores of each pod; by default 250m are requested for each thread and 2 allowed")
    memory: str = option("memory of each pod; by default 1Gi is requested for each process, 4Gi + 4Gi for each allowed")
    shm_size: str = option("size of /dev/shm in each pod; it counts as memory of the pod", "1Gi")
    data_claim: str = option("volume claim that holds data/; by default an init step prepares the data")


@dataclass(frozen=True)
class PodOptions(Options):
    """What can be chosen of the pods of a job."""

    deadline_seconds: int | None = None
    """When the cluster itself ends the job, if the runner that supervises it does not; None if no runner does."""


def pytorchjob(run: Run, name: str, options: PodOptions) -> list[Object]:
    """Describe a Master, which is node 0, and equal Workers; RequestError for layouts with a third shape of node."""
    layout = run.cell.layout
    if len(set(layout.processes[1:])) > 1:
        raise RequestError(
            f"layout {layout}: a PyTorchJob has two shapes of node, Master and Worker: use --with job=indexed"
        )
    replicas = {}
    for role, first, count in (("Master", 0, 1), ("Worker", 1, layout.nodes - 1)):
        if count:
            processes = layout.processes[first]
            template = _pod_template(run, _command(run.cell, processes), {}, processes, options)
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
    more = {"PET_NNODES": str(nodes), "PET_MASTER_ADDR": f"{name}-0.{name}", "PET_MASTER_PORT": str(MASTER_PORT)}
    spec = _indexed(run, more, options, CONTAINER)
    pod = spec["template"]["spec"]
    pod["containers"][0]["env"].append({"name": "PET_NODE_RANK", "valueFrom": _INDEX})
    pod["subdomain"] = name
    service = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"job-name": name}}
    job = _job("batch/v1", "Job", name, run, {"completions": nodes, "parallelism": nodes, **spec})
    return [_object("v1", "Service", name, service), job]


def trainjob(run: Run, name: str, options: PodOptions) -> list[Object]:
    """Describe a TrainingRuntime, which says what a node is, and a TrainJob, which says how many there are.

    The command stands in the runtime: a TrainJob's may have 128 words. The Job inside, not the JobSet, is removed a day
    after its end: Trainer would run a TrainJob that failed again without its JobSet.
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
"""What describes the objects of a run."""
OBJECTS = {
    "pytorchjob": ("PyTorchJob",),
    "trainjob": ("TrainingRuntime", "TrainJob"),
    "indexed": ("Service", "Job"),
}
"""The kinds of these objects, all of one name; the last is the job."""
JOBS = tuple(kinds[-1] for kinds in OBJECTS.values())
"""The kinds of the jobs."""


def name_of(experiment: str, layout: str, run_id: str = "") -> str:
    """Return the name of a run's objects, a DNS label that leaves room for those of its pods; a long one is cut.

    The last letters of the id of a run that is started make it unique; without an id it is what `--dry-run` shows.
    """
    suffix = f"-{run_id[-8:]}" if run_id else ""
    words = re.sub(r"[^a-z0-9]+", "-", f"{experiment}-{layout}".lower()).strip("-")
    words = words if words[:1].isalpha() else f"kit-{words}"
    return words[: LONGEST_NAME - len(suffix)].rstrip("-") + suffix


def pod_templates(document: Object) -> list[Object]:
    """Return the templates of the pods that an object describes; only a job and a runtime describe any."""
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
    """Describe a job, with the annotation that says what it runs."""
    job = _object(version, kind, name, spec)
    job["metadata"]["annotations"] = {RUN: identity_of(run)}
    return job


def _times(options: PodOptions) -> dict[str, int]:
    """Return when the cluster ends a job which its runner does not, and how long it is kept after its end."""
    ends = {} if options.deadline_seconds is None else {"activeDeadlineSeconds": options.deadline_seconds}
    return {**ends, "ttlSecondsAfterFinished": KEPT_SECONDS}


def _indexed(run: Run, more: dict[str, str], options: PodOptions, container: str) -> Object:
    """Describe a Job with an index for each node, whose pods take their number of processes from a list.

    None of the pods is started again.
    """
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
    """Return the command of a node; the operator's own PET_NPROC_PER_NODE is the same for all nodes."""
    torchrun, *words = node_command(cell)
    return [torchrun, "--nproc-per-node", str(processes), *words]


def _environment(run: Run) -> dict[str, str]:
    """Return the variables of every pod, less those that the operator or the Job sets.

    The processes print to the pod's log, which alone outlives the pod: their output is not redirected. The lines of a
    program that knows nothing of the kit do not say whose they are: torchrun writes that before each (`PET_TEE`).
    """
    cell = run.cell
    own = node_environment(cell, run.device)
    del own["PET_REDIRECTS"], own["PYTHONUNBUFFERED"]
    own |= {"PET_TEE": "3"} if run.experiment.dialects else {}
    network = variables_for("eth0") if cell.layout.nodes > 1 else {}
    return {**NAMED, **own, "PET_RDZV_CONF": f"timeout={RENDEZVOUS_SECONDS}", **network}


def _pod_template(
    run: Run, command: list[str], more: dict[str, str], processes: int, options: PodOptions, name: str = CONTAINER
) -> Object:
    """Describe the pod of a node, with room for so many processes and the data that the run's definition needs."""
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
            # Only the kit's own programs are known not to write into the working folder.
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
    if data and not options.data_claim:  # if it cannot, the program itself says in one line what is missing
        prepare, few = ["sh", "-c", f"runner prepare {data} || true"], {"cpu": "250m", "memory": "512Mi"}
        resources = {"requests": few, "limits": {"cpu": "1", "memory": "2Gi"}}
        pod["initContainers"] = [_container("data", base, prepare, NAMED, resources)]
    resources = _resources(run, processes, options)
    pod["containers"] = [_container(name, base, command, {**_environment(run), **more}, resources)]
    pod["volumes"] = volumes
    # Keep a service mesh's proxy out: it would never end, and the job with it.
    return {"metadata": {"annotations": {"sidecar.istio.io/inject": "false"}}, "spec": pod}


def _container(name: str, base: Object, command: list[str], environment: dict[str, str], resources: Object) -> Object:
    """Describe a container; Kubernetes would replace `$(NAME)` by one of its variables, and `$$` by `$`."""
    literal = partial(re.sub, r"\$(?=[$(])", "$$")
    env = [{"name": key, "value": literal(value)} for key, value in environment.items()]
    return {"name": name, **base, "command": [*map(literal, command)], "env": env, "resources": resources}


def _resources(run: Run, processes: int, options: PodOptions) -> dict[str, dict[str, str]]:
    """Request little by default, so that a small cluster has room, and allow more."""
    cores = processes * run.cell.threads_per_process
    requests = {"cpu": options.cpu or f"{250 * cores}m", "memory": options.memory or f"{processes}Gi"}
    limits = {"cpu": options.cpu or str(2 * cores), "memory": options.memory or f"{4 + 4 * processes}Gi"}
    gpus = str(processes * run.cell.devices_per_process)
    own = {"nvidia.com/gpu": gpus} if run.device == "cuda" else {}
    return {"requests": requests | own, "limits": limits | own}
