"""Check a cluster before a run, without creating anything."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from runner.core.errors import RequestError
from runner.targets.kubernetes.client import PATHS, PLURALS, PODS, Cluster, ClusterError
from runner.targets.kubernetes.job import COMES_TOO_SOON, pod_templates

OPERATOR = (
    "the training-operator: kubectl apply --server-side -k "
    '"github.com/kubeflow/training-operator.git/manifests/overlays/standalone?ref=v1.9.3"'
)
TRAINER = (
    "Kubeflow Trainer with JobSet: kubectl apply --server-side -k "
    '"github.com/kubeflow/trainer.git/manifests/overlays/manager?ref=v2.2.1"'
)
_PROVIDERS = {"PyTorchJob": OPERATOR, "TrainJob": TRAINER, "TrainingRuntime": TRAINER, "JobSet": TRAINER}
_BEHIND = {"TrainJob": ("JobSet",)}
"""Further kinds of objects that a kind of job needs."""
_UNAUTHORIZED, _FORBIDDEN = 401, 403


def check(cluster: Cluster, documents: list[dict[str, Any]]) -> None:
    """Raise RequestError if the cluster would refuse the objects of a run. The last of `documents` is the job."""
    kinds = [document["kind"] for document in documents]
    try:
        check_namespace(cluster)
        check_kinds(cluster, kinds)
        if lacking := lacking_rights(cluster, kinds):
            raise RequestError(
                f"no permission in namespace {cluster.namespace} to {', '.join(lacking)}: ask for a Role that grants it"
            )
        has_workers = "Worker" in documents[-1]["spec"].get("pytorchReplicaSpecs", {})
        if has_workers and enforces_restricted(cluster):
            raise RequestError(
                f"namespace {cluster.namespace} enforces the restricted Pod Security Standard, which the init "
                "container that the operator adds to Workers violates: use --with job=indexed"
            )
        _check_secrets(cluster, documents)
        for document in documents:
            # Trainer refuses a TrainJob for its missing runtime only after all other checks.
            _try(cluster, document["kind"], document, COMES_TOO_SOON)
            # A job's dry run does not check its pods. The job's controller creates the pods, so the user needs no
            # permission, and a quota may have room later.
            for template in pod_templates(document):
                metadata, spec = {"generateName": "kit-"}, {"restartPolicy": "Never", **template["spec"]}
                pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
                _try(cluster, PODS, pod, "cannot create resource", "exceeded quota")
    except ClusterError as error:
        hint = "the cluster does not accept your credentials, log in again: " if error.status == _UNAUTHORIZED else ""
        where = f"namespace {cluster.namespace} of {cluster.host}: " if error.status else ""
        raise RequestError(f"{where}{hint}{error}") from None


def _try(cluster: Cluster, kind: str, document: dict[str, Any], *harmless: str) -> None:
    """Create an object in a dry run. Raises ClusterError if the refusal contains no `harmless` phrase."""
    try:
        cluster.post(cluster.path(kind), document, dryRun="All", fieldValidation="Strict")
    except ClusterError as error:
        if not any(words in str(error) for words in harmless):
            raise


def _check_secrets(cluster: Cluster, documents: list[dict[str, Any]]) -> None:
    """Raise RequestError if the namespace lacks a Secret of the pods, as far as the user may see it."""
    pods = [template["spec"] for document in documents for template in pod_templates(document)]
    for name in {source["secretRef"]["name"] for pod in pods for source in pod["containers"][0].get("envFrom", ())}:
        try:
            cluster.get(cluster.path("secrets", quote(name, safe="")))
        except ClusterError as error:
            if error.is_absence:
                make = f"kubectl create secret generic {name} -n {cluster.namespace} --from-literal=HF_TOKEN=..."
                raise RequestError(f"no Secret {name} in namespace {cluster.namespace}: {make}") from None
            if error.status != _FORBIDDEN:
                raise


def check_namespace(cluster: Cluster) -> None:
    """Raise RequestError if the namespace does not exist, or ClusterError if the cluster does not answer."""
    name = cluster.namespace
    try:
        cluster.get(_namespace_path(cluster))
    except ClusterError as error:
        if error.is_absence:
            raise RequestError(f"no namespace {name} in {cluster.host}: kubectl create namespace {name}") from None
        if error.status != _FORBIDDEN:  # users of a namespace may lack permission to read it
            raise


def check_kinds(cluster: Cluster, kinds: Sequence[str]) -> None:
    """Raise RequestError if the cluster does not support a kind that the run's objects need."""
    for kind in (*kinds, *_BEHIND.get(kinds[-1], ())):
        try:
            known = [resource["kind"] for resource in cluster.get(PATHS[kind])["resources"]]
        except ClusterError as error:
            if not error.is_absence:
                raise
            known = []
        if kind not in known:
            raise RequestError(
                f"the cluster does not support {kind}: "
                f"use --with job=indexed, or install {_PROVIDERS.get(kind, 'Kubernetes')}"
            )


def lacking_rights(cluster: Cluster, kinds: Sequence[str]) -> list[str]:
    """Return the permissions that the user lacks for a run, e.g. "create jobs". The last of `kinds` is the job's."""
    groups = {PLURALS[kind]: PATHS[kind].split("/")[2] if PATHS[kind].startswith("/apis") else "" for kind in kinds}
    needed = [("create", plural) for plural in groups]
    needed += [("delete", plural) for plural in groups if plural != PLURALS["ConfigMap"]]  # deleted with the job
    needed += [("get", PLURALS[kinds[-1]]), ("list", PODS), ("watch", PODS), ("get", f"{PODS}/log")]
    lacking = []
    for verb, what in needed:
        resource, _, part = what.partition("/")
        wanted = {"verb": verb, "group": groups.get(resource, ""), "resource": resource, "subresource": part}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"namespace": cluster.namespace, **wanted}},
        }
        if not cluster.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)["status"]["allowed"]:
            lacking.append(f"{verb} {what}")
    return lacking


def enforces_restricted(cluster: Cluster) -> bool:
    """Return whether the namespace enforces the restricted Pod Security Standard. Returns False if this is unknown."""
    try:
        labels = cluster.get(_namespace_path(cluster))["metadata"].get("labels") or {}
    except ClusterError:
        return False
    return bool(labels.get("pod-security.kubernetes.io/enforce") == "restricted")


def _namespace_path(cluster: Cluster) -> str:
    return f"/api/v1/namespaces/{quote(cluster.namespace, safe='')}"
