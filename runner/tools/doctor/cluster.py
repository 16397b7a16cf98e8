"""The cluster that the kubeconfig names: what a run would need of it. Nothing is created in it.

Whether a node can pull the image is not tried, since that takes a pod; what is known is which nodes hold it.
"""

from typing import Any

from runner.core.errors import RequestError
from runner.core.text import listed
from runner.targets.compose.service import image_of
from runner.targets.kubernetes import preflight
from runner.targets.kubernetes.client import PATHS, PLURALS, Cluster, ClusterError
from runner.targets.kubernetes.job import OBJECTS, Options
from runner.tools.doctor.finding import Finding, ok, warning, wrong
from runner.tools.doctor.machine import amount

GPU = "nvidia.com/gpu"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
_LOG_IN = {401: "log in again: the cluster does not know who you are", 403: "ask for a Role that allows it"}


def gather(options: Options) -> dict[str, Any]:
    """Ask the cluster everything; `problem` says where that ended, `stage` in which check."""
    facts: dict[str, Any] = {"stage": "kubeconfig", "job": options.job}
    try:
        cluster = Cluster(options.namespace, options.context)
        facts |= {"host": cluster.host, "namespace": cluster.namespace, "stage": "api"}
        facts["version"] = cluster.get("/version").get("gitVersion")
        facts["stage"] = "namespace"
        preflight.check_namespace(cluster)
        kinds = OBJECTS[options.job]
        facts["crd"] = _served(cluster, kinds[-1])
        try:
            preflight.check_kinds(cluster, kinds)
        except RequestError as error:
            facts["missing_kind"] = str(error)
        facts["stage"] = "rights"
        facts["lacking"] = preflight.lacking_rights(cluster, kinds)
        facts["restricted"] = preflight.enforces_restricted(cluster)
        facts["stage"] = "nodes"
        facts["nodes"] = _nodes(cluster)
    except RequestError as error:
        facts["problem"] = str(error)
    except ClusterError as error:
        facts |= {"problem": str(error), "status": error.status}
    return facts


def _served(cluster: Cluster, kind: str) -> list[str]:
    """Name the versions of a custom kind that the cluster serves, as far as the user may see them."""
    try:
        crd = f"{PLURALS[kind]}.{PATHS[kind].split('/')[2]}"
        versions = cluster.get(f"{_CRDS}/{crd}")["spec"]["versions"]
        return [f"{kind} {version['name']}" for version in versions if version.get("served")]
    except (ClusterError, KeyError, TypeError):
        return []


def _nodes(cluster: Cluster) -> list[dict[str, Any]] | None:
    """List the nodes; None if the user may not see them, which a run does not need."""
    try:
        items = cluster.get("/api/v1/nodes", limit=500).get("items") or []
    except ClusterError as error:
        if error.status in _LOG_IN:
            return None
        raise
    return [_node(item) for item in items]


def _node(item: dict[str, Any]) -> dict[str, Any]:
    status, spec = item.get("status") or {}, item.get("spec") or {}
    offered = status.get("allocatable") or {}
    conditions = {condition.get("type"): condition.get("status") for condition in status.get("conditions") or []}
    return {
        "name": item["metadata"]["name"],
        "ready": conditions.get("Ready") == "True",
        "closed": bool(spec.get("unschedulable")),
        "pressures": [name for name in _PRESSURES if conditions.get(name) == "True"],
        "gpus": _count(offered.get(GPU)),
        "cpu": offered.get("cpu"),
        "memory": _size(offered.get("memory")),
        "images": [name for image in status.get("images") or [] for name in image.get("names") or []],
    }


def _count(quantity: object) -> int:
    return int(quantity) if isinstance(quantity, str) and quantity.isascii() and quantity.isdigit() else 0


def _size(quantity: object) -> str:
    """Write a quantity of memory for a person; a cluster gives it in Ki."""
    text = str(quantity)
    return amount(_count(text[:-2]) * 1024) if text.endswith("Ki") else text


def check(facts: dict[str, Any], where: str, options: Options, device: str, name: str = "") -> list[Finding]:
    """Check what `gather` found; `name` is the image of the project's settings, without a tag."""
    stage, found = facts["stage"], list[Finding]()
    cluster, namespace = facts.get("host", where), facts.get("namespace")
    found += [ok("kubeconfig", where, f"it names {cluster}, namespace {namespace}")] if stage != "kubeconfig" else []
    found += [ok("api", cluster, f"Kubernetes {facts['version']}")] if facts.get("version") else []
    found += [ok("namespace", cluster, f"namespace {namespace} is there")] if "crd" in facts else []
    if facts.get("missing_kind"):
        found.append(_split("crd", cluster, facts["missing_kind"], ""))
    elif facts.get("crd"):
        found.append(ok("crd", cluster, ", ".join(facts["crd"])))
    if facts.get("lacking"):
        seen = f"no right in namespace {namespace} to {', '.join(facts['lacking'])}"
        mend = f"ask for a Role that allows it: kubectl auth can-i --list --namespace {namespace} shows what you may"
        found.append(wrong("rights", cluster, seen, mend))
    elif "lacking" in facts:
        found.append(ok("rights", cluster, "the user may create, follow and delete what a run needs"))
    if facts.get("restricted") and options.job == "pytorchjob":
        seen = f"namespace {namespace} enforces the restricted Pod Security Standard, which Workers break"
        found.append(wrong("pod-security", cluster, seen, "--with job=indexed"))
    if problem := facts.get("problem"):
        return [*found, _split(stage, cluster, problem, _LOG_IN.get(facts.get("status", 0), ""))]
    return found + _check_nodes(facts["nodes"], cluster, options.image or image_of(name, device), device)


def _check_nodes(nodes: list[dict[str, Any]] | None, cluster: str, image: str, device: str) -> list[Finding]:
    if nodes is None:
        return [ok("nodes", cluster, "the user may not list the nodes, so they are not checked")]
    ready = [node for node in nodes if node["ready"] and not node["closed"]]
    found = []
    for node in nodes:
        name = node["name"]
        if not node["ready"]:
            found.append(warning("nodes", name, "the node is not ready", f"kubectl describe node {name}"))
        elif node["closed"]:
            found.append(warning("nodes", name, "the node takes no pods", f"kubectl uncordon {name}"))
        elif node["pressures"]:
            seen = f"the node reports {', '.join(node['pressures'])}"
            found.append(warning("nodes", name, seen, f"kubectl describe node {name}"))
        else:
            gpus = f", {node['gpus']} GPUs" if node["gpus"] else ""
            found.append(ok("nodes", name, f"{node['cpu']} cores, {node['memory']} of memory{gpus} for pods"))
    if not ready:
        return [*found, wrong("nodes", cluster, "no node takes pods", "kubectl get nodes")]
    gpus = sum(node["gpus"] for node in ready)
    if device == "cuda" and not gpus:
        mend = "install NVIDIA's device plugin, or use --device cpu; kubectl describe nodes shows what they offer"
        found.append(wrong("gpus", cluster, f"no node offers {GPU}", mend))
    return [*found, _check_image(ready, cluster, image)]


def _check_image(ready: list[dict[str, Any]], cluster: str, image: str) -> Finding:
    without = [node["name"] for node in ready if not any(_same(image, name) for name in node["images"])]
    if not without:
        return ok("image", cluster, f"every node holds {image}")
    seen = f"{image} is not on {listed(without)}"
    first, slash, _ = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return ok("image", cluster, f"{seen}, which pulls it from {first}")
    mend = "push it to a registry and name it with --with image=REGISTRY/NAME, or load it onto the nodes"
    return warning("image", cluster, f"{seen}, and its name has no registry to pull it from", mend)


def _same(image: str, name: str) -> bool:
    """Return whether a node's name of an image, which is a whole one, is this image."""
    whole_image = image if ":" in image.rpartition("/")[2] or "@" in image else f"{image}:latest"
    return name in (whole_image, f"docker.io/library/{whole_image}", f"docker.io/{whole_image}")


def _split(check_name: str, where: str, problem: str, mend: str) -> Finding:
    """Make a finding of an error's line: what is wrong, a colon, and the way out."""
    mend = mend or {"kubeconfig": "export KUBECONFIG=FILE", "api": "kubectl cluster-info"}.get(check_name, "")
    seen, _, way = (problem, "", mend) if mend else problem.partition(": ")
    return wrong(check_name, where, seen, way or "kubectl get events says more")
