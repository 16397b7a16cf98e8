"""The Kubernetes cluster that the kubeconfig names, and what has to be true of it before anything is created.

The official client reads the kubeconfig, or the service account of a pod, and keeps the connections; requests are made
over them as the API's documents give them, with plain JSON: its classes differ between versions.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from runner.errors import RequestError, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

OPERATOR = (
    "kubectl apply --server-side -k "
    '"github.com/kubeflow/training-operator.git/manifests/overlays/standalone?ref=v1.9.3"'
)
PATHS = {"PyTorchJob": "/apis/kubeflow.org/v1", "Job": "/apis/batch/v1", "Service": "/api/v1"}
PLURALS = {"PyTorchJob": "pytorchjobs", "Job": "jobs", "Service": "services"}
PODS = "pods"
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_CONNECT_SECONDS, _READ_SECONDS = 10.0, 30.0
_QUIET_SECONDS = 60.0
_NOT_FOUND, _UNAUTHORIZED, _FORBIDDEN = 404, 401, 403
_ERROR = 400


class ClusterError(OSError):
    """A request that the cluster refused (`status` is the HTTP code), or that never reached it (0)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_absence(self) -> bool:
        """Whether what was asked for is not there."""
        return self.status == _NOT_FOUND


class Cluster:
    """Connections to one cluster, and the namespace that is worked in."""

    def __init__(self, namespace: str = "", context: str = "") -> None:
        try:
            from kubernetes import client  # noqa: PLC0415 - imported on use
            from urllib3 import disable_warnings  # noqa: PLC0415 - the client's own
            from urllib3.exceptions import InsecureRequestWarning  # noqa: PLC0415 - the client's own
        except ImportError:
            msg = "target kubernetes needs the package kubernetes: make kubernetes installs it"
            raise RequestError(msg) from None
        self.context = context
        self._settings = client.Configuration()
        found = _load(self._settings, context)
        self.namespace = namespace or found or "default"
        self.host = str(self._settings.host).rstrip("/")
        disable_warnings(InsecureRequestWarning)  # who skips the check of certificates says so in the kubeconfig
        self._pool = client.ApiClient(self._settings).rest_client.pool_manager

    def path(self, kind: str, name: str = "") -> str:
        """Return the path of the objects of a kind in the namespace, or of one of them."""
        base = f"{PATHS.get(kind, '/api/v1')}/namespaces/{self.namespace}/{PLURALS.get(kind, kind)}"
        return f"{base}/{name}" if name else base

    def get(self, path: str, **query: object) -> dict[str, Any]:
        """Read one object or list."""
        return self._ask("GET", path, query)

    def post(self, path: str, body: dict[str, Any], **query: object) -> dict[str, Any]:
        """Create an object."""
        return self._ask("POST", path, query, body)

    def delete(self, path: str, **options: object) -> None:
        """Delete an object; one that is gone already is well."""
        try:
            self._ask("DELETE", path, {}, {"kind": "DeleteOptions", "apiVersion": "v1", **options})
        except ClusterError as error:
            if not error.is_absence:
                raise

    def stream(self, path: str, **query: object) -> Iterator[bytes]:
        """Yield what comes over a connection, until the other side ends it or nothing comes for a minute."""
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 - the client's own

        response = self._send("GET", path, query, None, _QUIET_SECONDS)
        try:
            yield from response.read_chunked(decode_content=False) if response.chunked else iter(response.read1, b"")
        except (HTTPError, OSError) as error:
            raise ClusterError(0, one_line(error)) from None
        finally:
            response.close()  # never back to the pool: its rest was not read

    def _ask(self, method: str, path: str, query: dict[str, object], body: object = None) -> dict[str, Any]:
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 - the client's own

        response = self._send(method, path, query, body, _READ_SECONDS)
        try:
            answer = json.loads(response.read())
        except (HTTPError, OSError, ValueError) as error:
            raise ClusterError(0, f"{self.host}: no answer that makes sense: {one_line(error)}") from None
        finally:
            response.release_conn()
        return answer if isinstance(answer, dict) else {}

    def _send(self, method: str, path: str, query: dict[str, object], body: object, seconds: float) -> Any:
        from urllib3 import Timeout  # noqa: PLC0415 - the client's own
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 - the client's own

        auth: Any = self._settings.auth_settings().values()  # asked anew each time: tokens are renewed
        headers = {one["key"]: one["value"] for one in auth if one["in"] == "header" and one["value"]}
        given = {name: value for name, value in query.items() if value is not None}
        url = f"{self.host}{path}" + (f"?{urlencode(given)}" if given else "")
        try:
            response = self._pool.request(
                method,
                url,
                body=None if body is None else json.dumps(body),
                headers={"Content-Type": "application/json", "Accept": "application/json, */*", **headers},
                timeout=Timeout(connect=_CONNECT_SECONDS, read=seconds),
                retries=False,
                preload_content=False,
            )
        except (HTTPError, OSError) as error:
            raise ClusterError(0, f"no cluster answers at {self.host}: {_innermost(error)}") from None
        if response.status >= _ERROR:
            raise ClusterError(response.status, _message(response))
        return response


def _innermost(error: BaseException) -> str:
    """Return what the system said, without the layers around it."""
    while cause := next((one for one in (getattr(error, "reason", None), error.__cause__) if one), None):
        if not isinstance(cause, BaseException):
            break
        error = cause
    return one_line(error) or type(error).__name__


def _message(response: Any) -> str:
    """Return what a refusal says of itself."""
    try:
        data = response.read()
    except Exception:  # noqa: BLE001 - whatever breaks here, the status is known
        data = b""
    finally:
        response.close()
    try:
        return one_line(json.loads(data)["message"])
    except (ValueError, KeyError, TypeError):
        return one_line(data.decode("utf-8", "replace")[:300] or f"HTTP {response.status}")


def _load(settings: Any, context: str) -> str:
    """Read the kubeconfig, or a pod's service account where there is none; return the namespace that it names."""
    from kubernetes import config  # noqa: PLC0415 - imported on use
    from yaml import YAMLError  # noqa: PLC0415 - what the client reads its files with

    named = os.environ.get("KUBECONFIG", "~/.kube/config")
    files = [path for word in named.split(os.pathsep) if word and (path := Path(word).expanduser()).is_file()]
    try:
        if not files and not context and _ACCOUNT.is_file():
            config.load_incluster_config(client_configuration=settings)
            return _ACCOUNT.read_text("utf-8").strip()
        if not files:
            msg = f"no kubeconfig: {named} does not exist; name one with KUBECONFIG"
            raise RequestError(msg)
        config.load_kube_config(context=context or None, client_configuration=settings)
        contexts, active = config.list_kube_config_contexts()
        chosen = next((one for one in contexts if one["name"] == context), active)
        return str((chosen.get("context") or {}).get("namespace") or "")
    except (config.ConfigException, YAMLError, OSError, TypeError, ValueError, KeyError, AttributeError) as error:
        msg = f"kubeconfig {named}: {one_line(error) or type(error).__name__}"
        raise RequestError(msg) from None


def check(cluster: Cluster, documents: list[dict[str, Any]]) -> None:
    """Raise RequestError where the cluster would not start what the documents describe; nothing is created."""
    try:
        _check_namespace(cluster)
        for document in documents:
            _check_kind(cluster, document["kind"])
        _check_rights(cluster, [document["kind"] for document in documents])
        _check_standard(cluster, documents)
        for document in documents:
            cluster.post(cluster.path(document["kind"]), document, dryRun="All", fieldValidation="Strict")
            _check_pods(cluster, document)
    except ClusterError as error:
        hint = {_UNAUTHORIZED: "the cluster does not know who you are: log in again: "}.get(error.status, "")
        where = "" if error.status == 0 else f"namespace {cluster.namespace} of {cluster.host}: "
        msg = f"{where}{hint}{error}"
        raise RequestError(msg) from None


def _check_namespace(cluster: Cluster) -> None:
    cluster.get("/version")
    try:
        cluster.get(f"/api/v1/namespaces/{cluster.namespace}")
    except ClusterError as error:
        if error.is_absence:
            msg = f"no namespace {cluster.namespace} in {cluster.host}: kubectl create namespace {cluster.namespace}"
            raise RequestError(msg) from None
        if error.status != _FORBIDDEN:  # who may work in a namespace need not see it
            raise


def _check_kind(cluster: Cluster, kind: str) -> None:
    try:
        known = [one.get("kind") for one in cluster.get(PATHS[kind]).get("resources", [])]
    except ClusterError as error:
        if not error.is_absence:
            raise
        known = []
    if kind not in known:
        msg = f"the cluster knows no {kind}: take --job indexed, or install the training-operator: {OPERATOR}"
        raise RequestError(msg)


def _check_rights(cluster: Cluster, kinds: list[str]) -> None:
    needed = [(verb, *_group(kind)) for kind in kinds for verb in ("create", "delete")]
    needed += [(verb, *_group(kind)) for kind in kinds if kind != "Service" for verb in ("get",)]
    needed += [("list", "", "pods", ""), ("watch", "", "pods", ""), ("get", "", "pods", "log")]
    lacking = [
        f"{verb} {resource}{'/' * bool(part)}{part}"
        for verb, group, resource, part in needed
        if not _may(cluster, verb, group, resource, part)
    ]
    if lacking:
        msg = f"no right in namespace {cluster.namespace} to {', '.join(lacking)}: ask for a Role that allows it"
        raise RequestError(msg)


def _check_pods(cluster: Cluster, document: dict[str, Any]) -> None:
    """Let the cluster look at the pods themselves, where it may be asked to; a job's own check does not reach them."""
    replicas = document["spec"].get("pytorchReplicaSpecs")
    owners = replicas.values() if replicas else [document["spec"]] if "template" in document["spec"] else []
    for owner in owners:
        spec = {"restartPolicy": "Never", **owner["template"]["spec"]}
        metadata = {"generateName": "kit-", "namespace": cluster.namespace}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        for volume in spec["volumes"]:
            _check_claim(cluster, volume.get("persistentVolumeClaim", {}).get("claimName", ""))
        try:
            cluster.post(cluster.path(PODS), pod, dryRun="All")
        except ClusterError as error:
            # Who may not make pods can leave that to the job's controller; and a quota may have room later.
            if not any(words in str(error) for words in ("cannot create resource", "exceeded quota")):
                raise


def _check_claim(cluster: Cluster, name: str) -> None:
    try:
        if name:
            cluster.get(cluster.path("persistentvolumeclaims", quote(name, safe="")))
    except ClusterError as error:
        if error.is_absence:
            msg = f"no volume claim {name} in namespace {cluster.namespace}: kubectl get persistentvolumeclaims"
            raise RequestError(msg) from None
        if error.status != _FORBIDDEN:
            raise


def _group(kind: str) -> tuple[str, str, str]:
    return (PATHS[kind].split("/")[2] if PATHS[kind].startswith("/apis") else "", PLURALS[kind], "")


def _may(cluster: Cluster, verb: str, group: str, resource: str, part: str) -> bool:
    asked = {"namespace": cluster.namespace, "verb": verb, "group": group, "resource": resource, "subresource": part}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    return bool(cluster.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)["status"]["allowed"])


def _check_standard(cluster: Cluster, documents: list[dict[str, Any]]) -> None:
    """Refuse Workers where the restricted standard is enforced: their init container, the operator's, breaks it."""
    if not any("Worker" in document["spec"].get("pytorchReplicaSpecs", {}) for document in documents):
        return
    try:
        labels = cluster.get(f"/api/v1/namespaces/{cluster.namespace}")["metadata"].get("labels") or {}
    except ClusterError:
        return
    if labels.get("pod-security.kubernetes.io/enforce") == "restricted":
        msg = (
            f"namespace {cluster.namespace} enforces the restricted Pod Security Standard, which the operator's "
            "own init container in Workers breaks: take --job indexed"
        )
        raise RequestError(msg)
