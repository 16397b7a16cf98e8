"""The pod of one node: what it runs, its environment, its volumes, and what it may use.

Sources: the Pod Security Standards, to whose restricted level these pods keep, and the expansion of `$(NAME)` in a
container's command and environment (kubernetes/third_party/forked/golang/expansion).
"""

import re
from dataclasses import dataclass
from typing import Any, Literal

from runner.core.network import variables_for
from runner.definitions.plan import Cell, Run
from runner.targets.base import option
from runner.targets.compose.service import WORKSPACE, image_of
from runner.targets.torchrun import node_command, node_environment

CONTAINER = "pytorch"
"""The training-operator looks for the container of this name."""
TRAINER_CONTAINER = "node"
"""Kubeflow Trainer looks for this one."""
CONTAINERS = (CONTAINER, TRAINER_CONTAINER)
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


def command_of(cell: Cell, processes: int) -> list[str]:
    """Return the command of a node with so many processes.

    The number is on the command line: the operator's own PET_NPROC_PER_NODE is the same for all nodes.
    """
    torchrun, *words = node_command(cell)
    return [torchrun, "--nproc-per-node", str(processes), *words]


def environment_of(run: Run) -> dict[str, str]:
    """Return the variables of every pod, less those that the operator or the Job sets.

    The processes print to the pod's log, which alone outlives the pod: their output is not redirected. The lines of a
    program that knows nothing of the kit do not say whose they are: torchrun writes that before each (`PET_TEE`).
    """
    cell = run.cell
    own = node_environment(cell, run.device)
    del own["PET_REDIRECTS"], own["PYTHONUNBUFFERED"]
    own |= {"PET_TEE": "3"} if run.experiment.dialects else {}
    network = variables_for("eth0") if cell.layout.nodes > 1 else {}
    return {**own, "PET_RDZV_CONF": f"timeout={RENDEZVOUS_SECONDS}", **network}


def pod_template(
    run: Run,
    command: list[str],
    environment: dict[str, str],
    processes: int,
    options: PodOptions,
    container_name: str = CONTAINER,
) -> dict[str, Any]:
    """Describe the pod of a node, with room for so many processes and the data that the run's definition needs."""
    places = {"shm": "/dev/shm", "tmp": "/tmp"}  # noqa: S108 - the pod's own
    volumes: list[dict[str, Any]] = [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": options.shm_size}},
        {"name": "tmp", "emptyDir": {}},
    ]
    data = run.experiment.data
    if data or options.data_claim:
        places["data"] = f"{WORKSPACE}/data"
        claim = {"persistentVolumeClaim": {"claimName": options.data_claim, "readOnly": True}}
        volumes.append({"name": "data", **(claim if options.data_claim else {"emptyDir": {}})})
    base = {
        "image": options.image or image_of(run.experiment.settings.image, run.device),
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            # Only the kit's own programs are known not to write into the working folder.
            "readOnlyRootFilesystem": not (run.experiment.settings.image or run.cell.program.files),
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in places.items()],
    }
    container = {
        "name": container_name,
        **base,
        "command": [literal(word) for word in command],
        "env": [{"name": key, "value": literal(value)} for key, value in (NAMED | environment).items()],
        "resources": _resources(run, processes, options),
    }
    pod = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 60,
        "securityContext": _OF_A_USER,
        **({"initContainers": [_prepare(data, base)]} if data and not options.data_claim else {}),
        "containers": [container],
        "volumes": volumes,
    }
    # Keep a service mesh's proxy out: it would never end, and the job with it.
    return {"metadata": {"annotations": {"sidecar.istio.io/inject": "false"}}, "spec": pod}


def literal(text: str) -> str:
    """Escape a text so that Kubernetes passes it on as it is.

    It replaces `$(NAME)` by a variable of the container, and `$$` by `$`.
    """
    return re.sub(r"\$(?=[$(])", "$$", text)


def _prepare(data: str, base: dict[str, Any]) -> dict[str, Any]:
    """Describe the init step that fetches data; if it cannot, the program itself says in one line what is missing."""
    resources = {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"cpu": "1", "memory": "2Gi"}}
    script = literal(f"runner prepare {data} || true")
    environment = [{"name": key, "value": value} for key, value in NAMED.items()]
    return {"name": "data", **base, "command": ["sh", "-c", script], "env": environment, "resources": resources}


def _resources(run: Run, processes: int, options: PodOptions) -> dict[str, dict[str, str]]:
    """Request little by default, so that a small cluster has room, and allow more."""
    cores = processes * run.cell.threads_per_process
    cpu = (options.cpu, options.cpu) if options.cpu else (f"{250 * cores}m", str(2 * cores))
    memory = (options.memory, options.memory) if options.memory else (f"{processes}Gi", f"{4 + 4 * processes}Gi")
    requests = {"cpu": cpu[0], "memory": memory[0]}
    limits = {"cpu": cpu[1], "memory": memory[1]}
    if run.device == "cuda":
        gpus = str(processes * run.cell.devices_per_process)
        requests["nvidia.com/gpu"] = limits["nvidia.com/gpu"] = gpus
    return {"requests": requests, "limits": limits}
