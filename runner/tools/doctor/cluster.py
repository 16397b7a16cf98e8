"""Checks of the Kubernetes cluster that the kubeconfig names, without creating anything there.

No image is pulled, since a pull would need a pod. Each node lists the images that it holds.
"""

from typing import Any

from runner.core.errors import RequestError
from runner.core.text import listed
from runner.targets.compose.service import image_of
from runner.targets.kubernetes import preflight
from runner.targets.kubernetes.client import Cluster, ClusterError
from runner.targets.kubernetes.job import OBJECTS, Options
from runner.tools.doctor.findings import Finding, of_error, ok, warning, wrong
from runner.tools.doctor.machine import amount

GPU = "nvidia.com/gpu"
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
_LOG_IN = {401: "log in again: the cluster does not know who you are", 403: "ask for a Role that allows it"}
_EVENTS = "see kubectl get events"
_MENDS = {"kubeconfig": "export KUBECONFIG=FILE", "api": "kubectl cluster-info"}


def check_cluster(options: Options, device: str, name: str, where: str) -> list[Finding]:
    """Check the cluster. Stop at the first request that fails. `name` is the project's image name without a tag."""
    findings: list[Finding] = []
    stage, kinds = "kubeconfig", OBJECTS[options.job]
    try:
        cluster = Cluster(options.namespace, options.context)
        where, namespace = cluster.host, cluster.namespace
        findings.append(ok(stage, where, f"the kubeconfig names {where}, namespace {namespace}"))
        stage = "api"
        findings.append(ok(stage, where, f"Kubernetes {cluster.get('/version').get('gitVersion')}"))
        stage = "namespace"
        preflight.check_namespace(cluster)
        findings.append(ok(stage, where, f"namespace {namespace} exists"))
        try:
            preflight.check_kinds(cluster, kinds)
            findings.append(ok("crd", where, f"the cluster knows {' and '.join(kinds)}"))
        except RequestError as error:
            findings.append(of_error("crd", where, error, ""))
        stage = "rights"
        findings.append(_rights(preflight.lacking_rights(cluster, kinds), where, namespace))
        if options.job == "pytorchjob" and preflight.enforces_restricted(cluster):
            seen = f"namespace {namespace} enforces the restricted Pod Security Standard, which Workers violate"
            findings.append(wrong("pod-security", where, seen, "--with job=indexed"))
        stage = "nodes"
        return findings + check_nodes(_nodes(cluster), where, options.image or image_of(name, device), device)
    except RequestError as error:
        return [*findings, of_error(stage, where, error, _MENDS.get(stage, _EVENTS))]
    except ClusterError as error:
        mend = _LOG_IN.get(error.status, _MENDS.get(stage, _EVENTS))
        return [*findings, wrong(stage, where, str(error), mend)]


def _rights(lacking: list[str], where: str, namespace: str) -> Finding:
    if not lacking:
        return ok("rights", where, "the user may create, watch and delete the objects of a run")
    mend = f"ask for a Role that allows it: kubectl auth can-i --list --namespace {namespace} shows what you may"
    return wrong("rights", where, f"no right in namespace {namespace} to {', '.join(lacking)}", mend)


def _nodes(cluster: Cluster) -> list[dict[str, Any]] | None:
    try:
        return cluster.get("/api/v1/nodes", limit=500).get("items") or []
    except ClusterError as error:
        if error.status in _LOG_IN:
            return None
        raise


def check_nodes(nodes: list[dict[str, Any]] | None, where: str, image: str, device: str) -> list[Finding]:
    """Check that nodes accept pods, offer GPUs if needed, and hold the image.

    `nodes` is None if the user may not list them.
    """
    if nodes is None:
        return [ok("nodes", where, "the user may not list the nodes, so they are not checked")]
    checked = [_check_node(node) for node in nodes]
    ready = [node for node, (_, takes_pods) in zip(nodes, checked, strict=True) if takes_pods]
    findings = [finding for finding, _ in checked]
    if not ready:
        return [*findings, wrong("nodes", where, "no node accepts pods", "kubectl get nodes")]
    if device == "cuda" and not any(map(_gpus, ready)):
        mend = "install NVIDIA's device plugin, or use --device cpu; kubectl describe nodes shows what they offer"
        findings.append(wrong("gpus", where, f"no node offers {GPU}", mend))
    return [*findings, _check_image(ready, where, image)]


def _check_node(node: dict[str, Any]) -> tuple[Finding, bool]:
    name, status = node["metadata"]["name"], node.get("status") or {}
    conditions = {condition["type"]: condition["status"] for condition in status.get("conditions") or []}
    if conditions.get("Ready") != "True":
        return warning("nodes", name, "the node is not ready", f"kubectl describe node {name}"), False
    if (node.get("spec") or {}).get("unschedulable"):
        return warning("nodes", name, "the node is cordoned", f"kubectl uncordon {name}"), False
    if pressures := [pressure for pressure in _PRESSURES if conditions.get(pressure) == "True"]:
        seen = f"the node reports {', '.join(pressures)}"
        return warning("nodes", name, seen, f"kubectl describe node {name}"), True
    offered = status.get("allocatable") or {}
    memory = str(offered.get("memory"))
    if memory.endswith("Ki") and memory[:-2].isdecimal():
        memory = amount(int(memory[:-2]) * 1024)
    gpus = f", {_gpus(node)} GPUs" if _gpus(node) else ""
    return ok("nodes", name, f"{offered.get('cpu')} cores, {memory} of memory{gpus} for pods"), True


def _gpus(node: dict[str, Any]) -> int:
    quantity = str((node.get("status") or {}).get("allocatable", {}).get(GPU))
    return int(quantity) if quantity.isdecimal() else 0


def _check_image(ready: list[dict[str, Any]], where: str, image: str) -> Finding:
    whole = image if ":" in image.rpartition("/")[2] or "@" in image else f"{image}:latest"
    names = {whole, f"docker.io/library/{whole}", f"docker.io/{whole}"}
    without = [
        node["metadata"]["name"]
        for node in ready
        if not any(names & {*(held.get("names") or [])} for held in (node.get("status") or {}).get("images") or [])
    ]
    if not without:
        return ok("image", where, f"every node holds {image}")
    seen = f"{image} is not on {listed(without)}"
    first, slash, _ = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return ok("image", where, f"{seen}, which pulls it from {first}")
    mend = "push it to a registry and name it with --with image=REGISTRY/NAME, or load it onto the nodes"
    return warning("image", where, f"{seen}, and its name has no registry to pull it from", mend)
