"""Access to the Kubernetes cluster of the kubeconfig, through the official client.

Requests are plain JSON to fixed paths. The client's typed classes differ between its versions, and API discovery
would need two more requests and a file in /tmp.
"""

import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any
from urllib.parse import quote

from runner.core.errors import RequestError
from runner.core.text import one_line

PATHS = {
    "PyTorchJob": "/apis/kubeflow.org/v1",
    "TrainJob": "/apis/trainer.kubeflow.org/v1alpha1",
    "TrainingRuntime": "/apis/trainer.kubeflow.org/v1alpha1",
    "JobSet": "/apis/jobset.x-k8s.io/v1alpha2",
    "Job": "/apis/batch/v1",
    "Service": "/api/v1",
    "ConfigMap": "/api/v1",
}
PLURALS = {kind: f"{kind.lower()}s" for kind in PATHS}
PODS = "pods"
_CONNECT_SECONDS, _READ_SECONDS = 10.0, 30.0
_QUIET_SECONDS = 60.0
_WATCH_SECONDS = 300
_NOT_FOUND = 404


class ClusterError(OSError):
    """Failed request. `status` is the HTTP code of the answer, or 0 if there was no answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(one_line(message))
        self.status = status

    @property
    def is_absence(self) -> bool:
        """Whether the requested object does not exist."""
        return self.status == _NOT_FOUND


class Cluster:
    """Client of one cluster, for the objects of one namespace."""

    def __init__(self, namespace: str = "", context: str = "") -> None:
        try:
            import urllib3
            from kubernetes import client, dynamic
        except ImportError:
            raise RequestError("target kubernetes needs the package kubernetes: run make kubernetes") from None
        self._settings = client.Configuration()
        of_context = _load(self._settings, context)
        self.namespace = namespace or of_context or "default"
        self._settings.retries = False
        self.host = str(self._settings.host).rstrip("/")
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        self._client = dynamic.DynamicClient(client.ApiClient(self._settings), discoverer=lambda *_: None)

    def path(self, kind: str, name: str = "") -> str:
        """Return the API path of all objects of a kind. With `name`, return the path of this object."""
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
        """Delete an object. Does nothing if it does not exist."""
        try:
            self._ask("DELETE", path, {}, {"kind": "DeleteOptions", "apiVersion": "v1", **options})
        except ClusterError as error:
            if not error.is_absence:
                raise

    def stream(self, path: str, **query: object) -> Iterator[bytes]:
        """Yield the bytes of a response until it ends. Raises ClusterError after a minute without data."""
        with self._refusals(), closing(self._send("GET", path, query, None, _QUIET_SECONDS)) as response:
            yield from response.stream(None, decode_content=False)

    def watch(self, path: str, **query: object) -> Iterator[dict[str, Any]]:
        """Yield the changes of the listed objects until the connection ends. A change has `type` and `raw_object`."""
        from kubernetes.watch import Watch

        def changes(**_: object) -> object:
            return self._send("GET", path, {**query, "watch": "true"}, None, _QUIET_SECONDS)

        with self._refusals():  # without a timeout the watch reconnects by itself and misses deletions
            yield from Watch().stream(changes, timeout_seconds=_WATCH_SECONDS)

    def execute(self, pod: str, container: str, command: list[str], seconds: float) -> bytes:
        """Run a command in a container and return its output."""
        from kubernetes import client
        from kubernetes.stream import stream

        api = client.CoreV1Api(client.ApiClient(self._settings))  # a new client, because `stream` patches it
        channels = {"stdout": True, "stderr": True, "stdin": False, "tty": False, "_request_timeout": seconds}
        call = api.connect_get_namespaced_pod_exec
        with self._refusals():
            return str(stream(call, pod, self.namespace, container=container, command=command, **channels)).encode()

    def _ask(self, method: str, path: str, query: dict[str, object], body: object = None) -> dict[str, Any]:
        with self._refusals():
            answer: dict[str, Any] = json.loads(self._send(method, path, query, body, _READ_SECONDS).data)
        return answer

    def _send(self, method: str, path: str, query: dict[str, object], body: object, seconds: float) -> Any:
        return self._client.request(
            method,
            path,
            body=body,
            query_params=[(name, value) for name, value in query.items() if value is not None],
            header_params={"Accept": "application/json, */*"},
            serialize=False,
            _request_timeout=(_CONNECT_SECONDS, seconds),
        )

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        from kubernetes.client import ApiException
        from urllib3.exceptions import HTTPError

        try:
            yield
        except ApiException as error:
            said = f"{self.host}: {error.reason}"
            with suppress(ValueError, KeyError, TypeError):
                said = json.loads(error.body)["message"]
            raise ClusterError(error.status or 0, said) from None
        except (HTTPError, OSError, ValueError) as error:
            raise ClusterError(0, f"the cluster at {self.host} does not answer: {error.__cause__ or error}") from None


def _load(settings: Any, context: str) -> str:
    from kubernetes import config
    from yaml import YAMLError

    named = os.environ.get("KUBECONFIG", "~/.kube/config")  # the client reads it only once, on import
    try:
        config.load_kube_config(named, context or None, client_configuration=settings)
        contexts, active = config.list_kube_config_contexts(named)
        chosen = next((known for known in contexts if known["name"] == context), active)
        return str((chosen.get("context") or {}).get("namespace") or "")
    except (config.ConfigException, YAMLError, OSError, TypeError, ValueError, KeyError, AttributeError) as error:
        raise RequestError(f"kubeconfig {named}: {one_line(error) or type(error).__name__}") from None
