"""Target `kubernetes`: one pod per node, in a PyTorchJob, a TrainJob or an Indexed Job."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from runner.core.errors import RequestError
from runner.core.layout import Layout
from runner.core.secrets import MASK
from runner.core.yaml_writer import to_yaml
from runner.definitions.environment import variables_of
from runner.definitions.plan import Run
from runner.records.folder import RunFolder
from runner.targets.base import BEYOND_SECONDS, LaunchSpec, Target
from runner.targets.kubernetes import preflight
from runner.targets.kubernetes.client import Cluster
from runner.targets.kubernetes.handle import JobHandle, end_remains
from runner.targets.kubernetes.job import KINDS, OBJECTS, Options, PodOptions, name_of, pod_templates
from runner.targets.observing import HOOKS, OBSERVE, OBSERVER, is_observed
from runner.targets.torchrun import node_specs

_HEADER = """Manifest of one run. To start it again: kubectl create -n {namespace} -f job.yaml"""
_PLACE = "/kit-observer"
_SEARCH = f'unset RANK; PYTHONPATH={_PLACE}/{HOOKS.name}${{PYTHONPATH:+:$PYTHONPATH}} exec "$@"'
"""Shell command that prepends the hooks to the image's PYTHONPATH.

The command also unsets the training-operator's RANK, with which torchrun would be observed like a rank of the script.
"""


@dataclass(frozen=True)
class KubernetesSpec(LaunchSpec):
    """A run as objects of a cluster. Once the run is started, the objects' names end with the end of its id."""

    run: Run = field(kw_only=True, repr=False)
    pod_options: PodOptions = field(kw_only=True)
    file: ClassVar[str] = "job.yaml"

    def documents(self, run_id: str = "") -> list[dict[str, Any]]:
        """Return the objects of the run. The last one is the job."""
        name = name_of(self.run.experiment.name, str(self.run.cell.layout), run_id)
        return KINDS[self.pod_options.job](self.run, name, self.pod_options)

    def started(self, run_id: str = "") -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the objects that start a run, and a list with the observer's ConfigMap if the run is observed."""
        documents = self.documents(run_id)
        return documents, [observe(documents)] if is_observed(self.run) else []

    def text(self, run_id: str = "") -> str:
        """Return the manifest as YAML."""
        header = _HEADER.format(namespace=self.pod_options.namespace or "default")
        documents = self.documents(run_id)
        return "---\n".join(to_yaml(document, "" if number else header) for number, document in enumerate(documents))


class Kubernetes(Target[KubernetesSpec]):
    """Target that starts pods in a Kubernetes cluster."""

    name: ClassVar[str] = "kubernetes"
    summary: ClassVar[str] = "pods of the cluster that the kubeconfig names, one per node of the layout"
    observes: ClassVar[bool] = True
    Options: ClassVar[type] = Options

    def spec(self, run: Run) -> KubernetesSpec:
        """Return the spec of a run. Raises RequestError if the kind of job does not support the layout."""
        deadline = round(run.experiment.timeout_seconds) + BEYOND_SECONDS
        options = asdict(self.options)
        if (variables := variables_of(run.cell.args)) and MASK in variables.values() and not self.options.secret:
            name = next(name for name, value in variables.items() if value == MASK)
            raise RequestError(f"--env {name}: pods get it from a Secret of the namespace: --with secret=NAME")
        spec = KubernetesSpec(
            node_specs(run.cell, "node0", run.device),
            str(run.experiment.root),
            run.device,
            options,
            run=run,
            pod_options=PodOptions(**options, deadline_seconds=deadline),
        )
        spec.documents()
        return spec

    def preflight(self, spec: KubernetesSpec) -> None:
        """Check the namespace, the kinds of objects and the permissions. Then create every object in a dry run."""
        documents, brought = spec.started()
        preflight.check(self._cluster(), [*brought, *documents])

    def image(self, spec: KubernetesSpec, say: Callable[[str], None]) -> dict[str, Any]:  # noqa: ARG002
        """Return the image's name. The digest is unknown until a pod has pulled the image."""
        template = next(template for document in spec.documents() for template in pod_templates(document))
        return {"name": template["spec"]["containers"][0]["image"]}

    def start(self, spec: KubernetesSpec, folder: RunFolder) -> JobHandle:
        """Return a handle. The job is created only in `lines`, so the caller can always `stop` and delete it."""
        return JobHandle(self._cluster(), *spec.started(folder.path.name), folder, len(spec.nodes))

    def cleanup(self, folder: RunFolder) -> None:
        """Save the rest of the logs and delete the run's objects."""
        launch = folder.launch()
        nodes = Layout.parse(launch.layout).nodes
        name = name_of(launch.experiment, launch.layout, folder.path.name)
        end_remains(self._cluster(), OBJECTS[self.options.job], name, folder, nodes)

    def _cluster(self) -> Cluster:
        return Cluster(self.options.namespace, self.options.context)


def observe(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """Add the observer to the pods in `documents`. Returns the ConfigMap with the observer's files."""
    job = documents[-1]["metadata"]
    paths = {f"{path.parent.name}.{path.name}": path for place in (HOOKS, OBSERVER) for path in place.glob("*.py")}
    items = [{"key": key, "path": f"{path.parent.name}/{path.name}"} for key, path in paths.items()]
    name = f"{job['name']}-observer"
    for pod in (template["spec"] for document in documents for template in pod_templates(document)):
        container = pod["containers"][0]
        container["command"] = ["sh", "-c", _SEARCH, "sh", *container["command"]]
        container["env"] += [{"name": OBSERVE, "value": f"{_PLACE}/{OBSERVER.name}"}]
        container["volumeMounts"] = [*container["volumeMounts"], {"name": "observer", "mountPath": _PLACE}]
        pod["volumes"] += [{"name": "observer", "configMap": {"name": name, "items": items}}]
    metadata = {**job, "name": name}
    data = {key: path.read_text("utf-8") for key, path in paths.items()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
