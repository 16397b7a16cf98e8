"""The nodes of a layout as pods: a PyTorchJob for Kubeflow's training-operator, or a plain Indexed Job.

Sources: the PyTorchJob CRD and what training-operator v1.9 tells its pods (pkg/controller.v1/pytorch/envvar.go), the
Job API's indexed completions, and the Pod Security Standards, to whose restricted level these pods keep.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from runner.composefile import IMAGES, WORKSPACE
from runner.errors import RequestError
from runner.targets.torchrun import MASTER_PORT, devices_per_process, node_requests

if TYPE_CHECKING:
    from runner.plan import Cell, Run

CONTAINER = "pytorch"
"""The operator looks for the container of this name."""
LABEL = "distributed-experiment-kit"
RUN = f"{LABEL}/run"
"""The annotation that tells which cell of which experiment a job is."""
USER = 1000
KEPT_SECONDS = 86_400
"""How long a job that has ended is kept, with its pods and their logs."""
MEETING_SECONDS = 900
"""How long nodes wait for each other: one may pull the image while another has it."""
_LONGEST_NAME = 50
_LONGEST_LABEL = 63
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")
# What the operator tells each pod itself, and what a Job's pods take from their index.
_TOLD = ("PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE", "PET_MASTER_ADDR", "PET_MASTER_PORT", "PYTHONUNBUFFERED")
# Processes print to the pod's log, which alone outlives the pod.
_LEFT_OUT = (*_TOLD, "PET_REDIRECTS")
_PREPARE = {"mnist": "runner prepare mnist", "bert": "runner prepare bert --from-packages"}
_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


@dataclass(frozen=True)
class Wants:
    """What a person may choose of the pods; quantities as Kubernetes writes them, empty for the kit's own choice."""

    image: str = ""
    cpu: str = ""
    memory: str = ""
    shm: str = ""
    data_claim: str = ""
    deadline_seconds: int | None = None
    """When the cluster itself ends the job, where nobody else does."""

    def check(self) -> None:
        """Raise RequestError for a quantity that Kubernetes would not read."""
        for option, value in (("cpu", self.cpu), ("memory", self.memory), ("shm-size", self.shm)):
            if value and not _QUANTITY.fullmatch(value):
                msg = f"--{option} {value}: Kubernetes does not read that quantity: write it as 500m, 2, 512Mi or 8Gi"
                raise RequestError(msg)


def job_name(experiment: str, layout: str, suffix: str = "") -> str:
    """Make a name that is a DNS label and leaves room for those of its pods; a long one is cut."""
    words = re.sub(r"[^a-z0-9]+", "-", f"{experiment}-{layout}".lower()).strip("-")
    words = words if words[:1].isalpha() else f"kit-{words}"
    return words[: _LONGEST_NAME - len(suffix)].rstrip("-") + suffix


def pytorchjob(run: Run, name: str, wants: Wants) -> list[dict[str, Any]]:
    """Describe a job of the training-operator: a Master, which is node 0, and equal Workers.

    Raises RequestError for layouts that have a third shape of node.
    """
    _check_name(name)
    cell, processes = run.cell, run.cell.layout.processes
    if len(set(processes[1:])) > 1:
        msg = f"layout {cell.layout}: a PyTorchJob has two shapes of node, Master and Worker; take --job indexed"
        raise RequestError(msg)
    replicas = {"Master": _replica(run, 0, 1, wants)}
    if cell.layout.nodes > 1:
        replicas["Worker"] = _replica(run, 1, cell.layout.nodes - 1, wants)
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": _metadata(run, name),
        "spec": {
            "nprocPerNode": str(processes[0]),
            "runPolicy": {
                "cleanPodPolicy": "Running",
                **_deadline(wants),
                "ttlSecondsAfterFinished": KEPT_SECONDS,
            },
            "pytorchReplicaSpecs": replicas,
        },
    }
    return [job]


def indexed_job(run: Run, name: str, wants: Wants) -> list[dict[str, Any]]:
    """Describe a headless Service, by which the pods find node 0, and a Job whose index is the node's number."""
    _check_name(name)
    cell = run.cell
    nodes, processes = cell.layout.nodes, cell.layout.processes
    command = _command(cell, processes[0])
    if len(set(processes)) > 1:
        # One template for all pods: each takes its own number of processes from the list.
        shares = " ".join(map(str, processes))
        words = shlex.join(command).replace(f"--nproc-per-node {processes[0]}", '--nproc-per-node "$1"', 1)
        command = ["sh", "-c", f"set -- {shares}; shift $JOB_COMPLETION_INDEX; exec {words}"]
    environment = _environment(cell) | {
        "PET_NNODES": str(nodes),
        "PET_MASTER_ADDR": f"{name}-0.{name}",
        "PET_MASTER_PORT": str(MASTER_PORT),
        "PYTHONUNBUFFERED": "1",
    }
    pod = _pod(run, command, environment, max(processes), wants)
    pod["containers"][0]["env"].append({"name": "PET_NODE_RANK", "valueFrom": {"fieldRef": {"fieldPath": _INDEX}}})
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": _labels(name)},
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"job-name": name}},
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(run, name),
        "spec": {
            "completions": nodes,
            "parallelism": nodes,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            **_deadline(wants),
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": _template({**pod, "restartPolicy": "Never", "subdomain": name}),
        },
    }
    return [service, job]


KINDS = {"pytorchjob": pytorchjob, "indexed": indexed_job}
"""The ways to start pods, as `--job` names them."""


def _replica(run: Run, node: int, replicas: int, wants: Wants) -> dict[str, Any]:
    processes = run.cell.layout.processes[node]
    # On the command line: the operator's own PET_NPROC_PER_NODE is the same for all.
    pod = _pod(run, _command(run.cell, processes), _environment(run.cell), processes, wants)
    return {"replicas": replicas, "restartPolicy": "Never", "template": _template(pod)}


def _command(cell: Cell, processes: int) -> list[str]:
    torchrun, *words = node_requests(cell, "")[0].argv
    return [torchrun, "--nproc-per-node", str(processes), *words]


def _environment(cell: Cell) -> dict[str, str]:
    network = {"GLOO_SOCKET_IFNAME": "eth0", "NCCL_SOCKET_IFNAME": "=eth0"} if cell.layout.nodes > 1 else {}
    environment = node_requests(cell, "")[0].env
    own = {name: value for name, value in environment.items() if name not in _LEFT_OUT}
    return {**own, "PET_RDZV_CONF": f"timeout={MEETING_SECONDS}", **network}


def _pod(run: Run, command: list[str], environment: dict[str, str], processes: int, wants: Wants) -> dict[str, Any]:
    """Describe a pod that keeps to the restricted Pod Security Standard."""
    image = wants.image or IMAGES[run.device]
    places = {"shm": "/dev/shm", "tmp": "/tmp"}  # noqa: S108 - the pod's own
    volumes: list[dict[str, Any]] = [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": wants.shm or "1Gi"}},
        {"name": "tmp", "emptyDir": {}},
    ]
    dataset = _dataset(run.cell)
    if dataset or wants.data_claim:
        places["data"] = f"{WORKSPACE}/data"
        claim = {"persistentVolumeClaim": {"claimName": wants.data_claim, "readOnly": True}}
        volumes.append({"name": "data", **(claim if wants.data_claim else {"emptyDir": {}})})
    base = {
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in places.items()],
    }
    container = {
        "name": CONTAINER,
        **base,
        "command": command,
        "env": [{"name": key, "value": value} for key, value in environment.items()],
        "resources": _resources(run, processes, wants),
    }
    first = {}
    if dataset and not wants.data_claim:
        # Where there is no way out to the data, the program says in a line what is missing.
        script = f"{_PREPARE[dataset]} || true"
        amounts = {"cpu": "1", "memory": "2Gi"}
        resources = {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": amounts}
        first = {"initContainers": [{"name": "data", **base, "command": ["sh", "-c", script], "resources": resources}]}
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 60,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        **first,
        "containers": [container],
        "volumes": volumes,
    }


def _resources(run: Run, processes: int, wants: Wants) -> dict[str, dict[str, str]]:
    """Ask for little where nobody said how much, so that a small cluster has room, and never for more than that."""
    cores = processes * int(run.cell.args.get("threads") or 1)
    cpu = (wants.cpu, wants.cpu) if wants.cpu else (f"{250 * cores}m", str(2 * cores))
    memory = (wants.memory, wants.memory) if wants.memory else (f"{processes}Gi", f"{4 + 4 * processes}Gi")
    requests = {"cpu": cpu[0], "memory": memory[0]}
    limits = {"cpu": cpu[1], "memory": memory[1]}
    if run.device == "cuda":
        gpus = str(processes * devices_per_process(run.cell))
        requests["nvidia.com/gpu"] = limits["nvidia.com/gpu"] = gpus
    return {"requests": requests, "limits": limits}


def _dataset(cell: Cell) -> str | None:
    """Name the data set that a cell's program reads, of those that are not in the image."""
    family = cell.program.name.partition(".")[0]
    return family if family in _PREPARE and cell.args.get("dataset") != "digits" else None


def _template(pod: dict[str, Any]) -> dict[str, Any]:
    """Keep a service mesh's proxy out: it would never end, and the job with it."""
    return {"metadata": {"annotations": {"sidecar.istio.io/inject": "false"}}, "spec": pod}


def _labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": LABEL, "app.kubernetes.io/instance": name}


def _metadata(run: Run, name: str) -> dict[str, Any]:
    cell = run.cell
    what = {
        "experiment": run.experiment.name,
        "program": cell.program.name,
        "layout": str(cell.layout),
        "device": run.device,
        "axes": cell.axes,
        "args": cell.args,
    }
    return {"name": name, "labels": _labels(name), "annotations": {RUN: json.dumps(what)}}


def _deadline(wants: Wants) -> dict[str, int]:
    return {} if wants.deadline_seconds is None else {"activeDeadlineSeconds": wants.deadline_seconds}


def _check_name(name: str) -> None:
    if len(name) > _LONGEST_NAME:
        msg = f"{name}: {len(name)} characters; {_LONGEST_NAME} of {_LONGEST_LABEL} leave a job's pods room: shorten it"
        raise RequestError(msg)
