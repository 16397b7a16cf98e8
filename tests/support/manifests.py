"""Readers of manifests that imitate the API server, the operators, the kubelet and torchrun."""

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import jsonschema

from runner.definitions import experiment as definition
from runner.definitions.choices import Selection
from runner.definitions.plan import Run, make_plan
from runner.targets.kubernetes.job import pod_templates
from runner.targets.local import Local

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "tests" / "targets" / "kubernetes"
"""The schemas of the CRDs of training-operator 1.9.3, Trainer 2.2.1 and JobSet 0.12.0, without their descriptions."""
OWN = {
    *("PET_REDIRECTS", "PET_LOG_DIR", "KIT_ARTIFACTS", "PET_RDZV_CONF", "PET_MASTER_ADDR", "PET_MASTER_PORT"),
    *("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "CUDA_VISIBLE_DEVICES", "ACCELERATE_USE_CPU", "PET_TEE"),
    *("HOME", "USER"),
}
"""Variables that differ between targets."""


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """Make a schema refuse unknown fields, as the API server does in strict mode."""
    if isinstance(schema.get("properties"), dict):
        schema.setdefault("additionalProperties", False)
    if schema.pop("x-kubernetes-int-or-string", False):
        schema.pop("anyOf", None)
        schema["type"] = ["integer", "string"]
    return schema


def strict(kind: str) -> dict[str, Any]:
    """Return the strict schema of a kind, without checks of metadata."""
    text = (SCHEMAS / f"{kind.lower()}.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text, object_hook=closed)
    schema["properties"]["metadata"] = {"type": "object"}
    if kind == "PyTorchJob":
        pod_of(schema)["properties"]["metadata"] = {"type": "object"}
    return schema


def pod_of(pytorchjob: dict[str, Any]) -> dict[str, Any]:
    replicas = pytorchjob["properties"]["spec"]["properties"]["pytorchReplicaSpecs"]
    found: dict[str, Any] = replicas["additionalProperties"]["properties"]["template"]
    return found


STRICT = {kind: strict(kind) for kind in ("PyTorchJob", "TrainJob", "TrainingRuntime", "JobSet")}
POD = jsonschema.Draft202012Validator(pod_of(STRICT["PyTorchJob"]))
JOB_FIELDS = {
    *("completions", "parallelism", "completionMode", "backoffLimit", "ttlSecondsAfterFinished", "template"),
    "activeDeadlineSeconds",
}


def validate(document: dict[str, Any]) -> None:
    if document["kind"] in STRICT:
        jsonschema.Draft202012Validator(STRICT[document["kind"]]).validate(document)
    elif document["kind"] == "Job":  # its pods are the same pods
        POD.validate(document["spec"]["template"])
        assert set(document["spec"]) <= JOB_FIELDS


@cache
def load_experiment(name: str) -> definition.Experiment:
    return definition.load(definition.find(name, ROOT), ROOT)


def runs(name: str, device: str, layouts: list[str] | None = None) -> list[Run]:
    plan = make_plan(load_experiment(name), Selection(device=device, layouts=layouts or (), repeat=1))
    return [replace(run, observed=False) for run in plan.runs]  # not every target brings the observer


def run(layout: str = "2x2", device: str = "cuda", name: str = "mnist") -> Run:
    return runs(name, device, [layout])[0]


def pods(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [template["spec"] for document in documents for template in pod_templates(document)]


class Node(NamedTuple):
    """A node as torchrun starts it."""

    words: tuple[str, ...]
    environment: dict[str, str]
    nodes: int
    node: int
    processes: int


def decoded(argv: list[str], environment: dict[str, str]) -> Node:
    """Parse a node as torchrun does: its command line overrides the environment."""
    launcher, *words = argv
    assert launcher == "torchrun"
    environment = dict(environment)
    if words[0] == "--nproc-per-node":
        environment["PET_NPROC_PER_NODE"], words = words[1], words[2:]
    defaults = {"PET_NNODES": 1, "PET_NODE_RANK": 0, "PET_NPROC_PER_NODE": 1}
    place = [int(environment.pop(name, default)) for name, default in defaults.items()]
    kept = {name: value for name, value in environment.items() if name not in OWN}
    substituted = tuple(Template(word).safe_substitute(local_rank="0") for word in words)
    return Node(substituted, kept, *place)


def local_nodes(run: Run) -> list[Node]:
    return [decoded(node.argv, node.env) for node in Local().spec(run).nodes]


def expanded(text: str, environment: dict[str, str]) -> str:
    """Expand `$$` to `$` and `$(NAME)` to a variable, if it exists, as Kubernetes does."""

    def value(found: re.Match[str]) -> str:
        return "$" if found[0] == "$$" else environment.get(found[1], found[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", value, text)


def started(container: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
    """Return the command and the variables with which the kubelet starts a container."""
    environment: dict[str, str] = {}
    for variable in container["env"]:
        environment[variable["name"]] = expanded(variable.get("value", ""), environment)
    return [expanded(word, environment) for word in container["command"]], environment


def of_pytorchjob(document: dict[str, Any]) -> list[Node]:
    """Read a PyTorchJob as the operator does, whose variables override the pod's."""
    spec = document["spec"]
    replicas = spec["pytorchReplicaSpecs"].values()  # Master, Worker
    templates = [replica["template"] for replica in replicas for _ in range(replica["replicas"])]
    found = []
    for rank, template in enumerate(templates):
        command, environment = started(template["spec"]["containers"][0])
        environment |= {"PET_NNODES": str(len(templates)), "PET_NPROC_PER_NODE": spec["nprocPerNode"]}
        found.append(decoded(command, environment | {"PET_NODE_RANK": str(rank), "PYTHONUNBUFFERED": "1"}))
    return found


def of_indexed_pods(job: dict[str, Any]) -> list[Node]:
    """Read the pods of an Indexed Job as the kubelet and the shell do."""
    container = job["template"]["spec"]["containers"][0]
    found = []
    for index in range(job["completions"]):
        argv, environment = started(container)
        environment["PET_NODE_RANK"] = str(index)
        if argv[0] == "sh":
            shares, command = re.fullmatch(
                r"set -- ([\d ]+); shift \$JOB_COMPLETION_INDEX; exec (.*)", argv[2]
            ).groups()
            argv = [shares.split()[index] if word == "$1" else word for word in shlex.split(command)]
        found.append(decoded(argv, environment))
    return found


def of_trainjob(documents: list[dict[str, Any]]) -> list[Node]:
    """Read a TrainJob as Trainer, JobSet, the kubelet and the shell do; fail if a webhook would refuse it.

    Source: pkg/runtime/framework/plugins/torch/torch.go and .../jobset of Trainer 2.2.1, and pkg/webhooks of both.
    """
    runtime, job = documents
    assert job["spec"]["runtimeRef"]["name"] == runtime["metadata"]["name"]
    assert runtime["spec"]["mlPolicy"] == {"torch": {}}
    made = runtime["spec"]["template"]["spec"]
    (step,) = made["replicatedJobs"]
    assert (step["name"], step["replicas"]) == ("node", 1)
    assert step["template"]["metadata"]["labels"]["trainer.kubeflow.org/trainjob-ancestor-step"] == "trainer"
    trainer, of_nodes = job["spec"]["trainer"], step["template"]["spec"]
    assert (of_nodes["completionMode"], of_nodes["backoffLimit"]) == ("Indexed", 0)
    assert of_nodes["template"]["spec"]["restartPolicy"] == "Never"  # JobSet's default is another
    own = {"PET_NNODES": trainer["numNodes"], "PET_NPROC_PER_NODE": trainer["numProcPerNode"]}
    container = of_nodes["template"]["spec"]["containers"][0]
    container["env"] = [variable for variable in container["env"] if variable["name"] not in own]
    container["env"] += [{"name": key, "value": str(value)} for key, value in own.items()]
    validate({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {}, "spec": made})
    return of_indexed_pods({**of_nodes, "completions": trainer["numNodes"]})


READERS: dict[str, Callable[[list[dict[str, Any]]], list[Node]]] = {
    "pytorchjob": lambda documents: of_pytorchjob(documents[-1]),
    "trainjob": of_trainjob,
    "indexed": lambda documents: of_indexed_pods(documents[-1]["spec"]),
}
