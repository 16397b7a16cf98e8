"""Connections to the Kubernetes cluster that the kubeconfig names.

The official client reads the kubeconfig, or the service account of a pod, and keeps the connections; requests are made
over them with plain JSON, since the classes of the client differ between versions.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from runner.core.errors import RequestError
from runner.core.text import one_line

PATHS = {
    "PyTorchJob": "/apis/kubeflow.org/v1",
    "TrainJob": "/apis/trainer.kubeflow.org/v1alpha1",
    "TrainingRuntime": "/apis/trainer.kubeflow.org/v1alpha1",
    "JobSet": "/apis/jobset.x-k8s.io/v1alpha2",
    "Job": "/apis/batch/v1",
    "Service": "/api/v1",
}
PLURALS = {kind: f"{kind.lower()}s" for kind in PATHS}
PODS = "pods"
_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_CONNECT_SECONDS, _READ_SECONDS = 10.0, 30.0
_QUIET_SECONDS = 60.0
_NOT_FOUND = 404
_ERROR = 400


class ClusterError(OSError):
    """A request that the cluster refused (`status` is the HTTP code), or that never reached it (0)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(one_line(message))
        self.status = status

    @property
    def is_absence(self) -> bool:
        """Whether what was asked for is not there."""
        return self.status == _NOT_FOUND


class Cluster:
    """Connections to one cluster, and the namespace in which everything is done."""

    def __init__(self, namespace: str = "", context: str = "") -> None:
        try:
            from kubernetes import client  # imported on use
            from urllib3 import disable_warnings  # the client's own
            from urllib3.exceptions import InsecureRequestWarning  # the client's own
        except ImportError:
            raise RequestError("target kubernetes needs the package kubernetes: make kubernetes installs it") from None
        self.context = context
        self._settings = client.Configuration()
        found = _load(self._settings, context)
        self.namespace = namespace or found or "default"
        self.host = str(self._settings.host).rstrip("/")
        disable_warnings(InsecureRequestWarning)  # the kubeconfig says whether certificates are checked
        self._pool = client.ApiClient(self._settings).rest_client.pool_manager

    def path(self, kind: str, name: str = "") -> str:
        """Return the path of the objects of a kind in the namespace, or of one of them."""
        namespace = quote(self.namespace, safe="")
        base = f"{PATHS.get(kind, '/api/v1')}/namespaces/{namespace}/{PLURALS.get(kind, kind)}"
        return f"{base}/{name}" if name else base

    def get(self, path: str, **query: object) -> dict[str, Any]:
        """Read one object or list."""
        return self._ask("GET", path, query)

    def post(self, path: str, body: dict[str, Any], **query: object) -> dict[str, Any]:
        """Create an object."""
        return self._ask("POST", path, query, body)

    def delete(self, path: str, **options: object) -> None:
        """Delete an object; it is no error if it is gone already."""
        try:
            self._ask("DELETE", path, {}, {"kind": "DeleteOptions", "apiVersion": "v1", **options})
        except ClusterError as error:
            if not error.is_absence:
                raise

    def stream(self, path: str, **query: object) -> Iterator[bytes]:
        """Yield what comes over a connection, until the other side ends it or nothing comes for a minute."""
        from urllib3.exceptions import HTTPError  # the client's own

        response = self._send("GET", path, query, None, _QUIET_SECONDS)
        try:
            yield from response.read_chunked(decode_content=False) if response.chunked else iter(response.read1, b"")
        except (HTTPError, OSError) as error:
            raise ClusterError(0, str(error)) from None
        finally:
            response.close()  # never back to the pool: its rest was not read

    def execute(self, pod: str, container: str, command: list[str], seconds: float) -> bytes:
        """Run a command in a container and return what it prints; ClusterError if that is not allowed or fails."""
        from kubernetes import client  # imported on use
        from kubernetes.stream import stream  # imported on use

        api = client.CoreV1Api(client.ApiClient(self._settings))
        try:
            printed = stream(
                api.connect_get_namespaced_pod_exec,
                pod,
                self.namespace,
                container=container,
                command=command,
                stdout=True,
                stderr=True,
                stdin=False,
                tty=False,
                _request_timeout=seconds,
            )
        except client.ApiException as error:
            raise ClusterError(error.status or 0, str(error.reason or error)) from None
        return str(printed).encode()

    def _ask(self, method: str, path: str, query: dict[str, object], body: object = None) -> dict[str, Any]:
        from urllib3.exceptions import HTTPError  # the client's own

        response = self._send(method, path, query, body, _READ_SECONDS)
        try:
            answer: dict[str, Any] = json.loads(response.read())
        except (HTTPError, OSError, ValueError) as error:
            raise ClusterError(0, f"{self.host}: the answer cannot be read: {error}") from None
        finally:
            response.release_conn()
        return answer

    def _send(self, method: str, path: str, query: dict[str, object], body: object, seconds: float) -> Any:
        from urllib3 import Timeout  # the client's own
        from urllib3.exceptions import HTTPError  # the client's own

        auth: Any = self._settings.auth_settings().values()  # read for each request: tokens are renewed
        headers = {part["key"]: part["value"] for part in auth if part["in"] == "header" and part["value"]}
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
    while cause := next((reason for reason in (getattr(error, "reason", None), error.__cause__) if reason), None):
        if not isinstance(cause, BaseException):
            break
        error = cause
    return str(error) or type(error).__name__


def _message(response: Any) -> str:
    """Return the message of a refusal."""
    data = b""
    with suppress(Exception):  # whatever breaks here, the status is known
        data = response.read()
    response.close()
    try:
        return str(json.loads(data)["message"])
    except (ValueError, KeyError, TypeError):
        return data.decode("utf-8", "replace")[:300] or f"HTTP {response.status}"


def _load(settings: Any, context: str) -> str:
    """Read the kubeconfig, or a pod's service account if there is none; return the namespace that it names."""
    from kubernetes import config  # imported on use
    from yaml import YAMLError  # what the client reads its files with

    named = os.environ.get("KUBECONFIG", "~/.kube/config")
    files = [path for word in named.split(os.pathsep) if word and (path := Path(word).expanduser()).is_file()]
    try:
        if not files and not context and _ACCOUNT.is_file():
            config.load_incluster_config(client_configuration=settings)
            return _ACCOUNT.read_text("utf-8").strip()
        if not files:
            raise RequestError(f"no kubeconfig: {named} does not exist; name one with KUBECONFIG")
        config.load_kube_config(context=context or None, client_configuration=settings)
        contexts, active = config.list_kube_config_contexts()
        chosen = next((known for known in contexts if known["name"] == context), active)
        return str((chosen.get("context") or {}).get("namespace") or "")
    except (config.ConfigException, YAMLError, OSError, TypeError, ValueError, KeyError, AttributeError) as error:
        raise RequestError(f"kubeconfig {named}: {one_line(error) or type(error).__name__}") from None
