"""A fake cluster with Kubeflow Trainer, for the checks before a run."""

from typing import Any

from runner.targets.kubernetes.client import PATHS, Cluster, ClusterError

UNKNOWN = (
    'admission webhook "validator.trainjob.trainer.kubeflow.org" denied the request: spec.runtimeRef: Invalid value: '
    '{"name":"job"}: TrainingRuntime.trainer.kubeflow.org "job" not found: specified trainingRuntime must be created '
    "before the TrainJob is created"
)


class Answers(Cluster):
    """A cluster that lacks one kind, forbids one verb or refuses one kind, and answers as Trainer's webhook does."""

    def __init__(self, *, lacks: str = "", forbids: str = "", refuses: str = "") -> None:
        self.namespace, self.host = "lab", "https://c"
        self._lacks, self._forbids, self._refuses = lacks, forbids, refuses
        self.tried: list[str] = []
        self.events: dict[str, list[dict[str, Any]]] = {}

    def get(self, path: str, **query: object) -> dict[str, Any]:
        if path.endswith("/events"):
            return {"items": self.events.get(str(query["fieldSelector"]), [])}
        if path in PATHS.values():
            return {"resources": [{"kind": kind} for kind, at in PATHS.items() if at == path and kind != self._lacks]}
        return {"metadata": {}}

    def post(self, path: str, body: dict[str, Any], **query: object) -> dict[str, Any]:
        if body["kind"] == "SelfSubjectAccessReview":
            wanted = body["spec"]["resourceAttributes"]
            return {"status": {"allowed": f"{wanted['verb']} {wanted['resource']}" != self._forbids}}
        assert query["dryRun"] == "All"
        self.tried.append(body["kind"])
        if body["kind"] == "TrainJob":
            raise ClusterError(403, UNKNOWN)
        if body["kind"] == self._refuses:
            raise ClusterError(422, f"{path} is invalid")
        return {}
