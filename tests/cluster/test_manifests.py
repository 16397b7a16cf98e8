"""The files of k8s/ on a real cluster: accepted as they are, applied by hand, collected afterwards."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.targets.committed_files import FOLDERS, read_listing
from runner.targets.kubernetes.job import COMES_TOO_SOON
from tests.support.cluster import get, kubectl
from tests.support.launches import until
from tests.support.manifests import SCHEMAS
from tests.support.projects import Project
from tests.support.same_records import curve

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
NAMES = list(read_listing(ROOT).kubernetes.files)
MARKS = {"trainjob": [pytest.mark.trainer]}
FILES = [
    pytest.param(kind, f"{folder}/{name}.yaml", marks=MARKS.get(kind, []))
    for kind, folder in FOLDERS.items()
    for name in NAMES
]
PRINTED = pytest.param("indexed", "job.yaml")
"""A job that is not committed: what `--dry-run` prints."""
SMALL = [file for file in FILES if str(file.values[1]).endswith("/mnist-multinode-cpu.yaml")]
CRDS = {
    "pytorchjobs.kubeflow.org": "pytorchjob",
    "trainjobs.trainer.kubeflow.org": "trainjob",
    "trainingruntimes.trainer.kubeflow.org": "trainingruntime",
    "jobsets.jobset.x-k8s.io": "jobset",
}


@pytest.mark.parametrize(
    "crd", [pytest.param(crd, marks=[] if crd.startswith("pytorch") else MARKS["trainjob"]) for crd in CRDS]
)
def test_what_is_validated_offline_is_the_schema_that_the_cluster_has(crd: str) -> None:
    def bare(value: Any) -> Any:
        if isinstance(value, list):
            return [bare(item) for item in value]
        if isinstance(value, dict):
            said = isinstance(value.get("description"), str)
            return {key: bare(item) for key, item in value.items() if not (said and key == "description")}
        return value

    found = json.loads(kubectl("get", "crd", crd, "-o", "json"))
    kept = json.loads((SCHEMAS / f"{CRDS[crd]}.schema.json").read_text("utf-8"))
    assert bare(found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]) == kept


@pytest.fixture
def there(project: Project) -> Project:
    """The project, with the job that is not committed."""
    words = ("--with", "job=indexed", "--layout", "2x1", "--device", "cpu", "--repeat", "1", "--dry-run")
    printed = project.runner("run", "quickstart", "--on", "kubernetes", *words)
    (project.root / "job.yaml").write_text(printed.stdout)
    return project


@pytest.mark.parametrize(("kind", "file"), [*FILES, PRINTED])
def test_the_api_server_and_the_operator_accept_every_file(kind: str, file: str, there: Project) -> None:
    said = kubectl("create", "--dry-run=server", "--validate=strict", "-f", file, cwd=there.root, check=False)
    assert said.count("created (server dry run)") == (2 if kind == "indexed" else 1), said
    assert (COMES_TOO_SOON in said) == (kind == "trainjob")  # in a dry run its runtime was not created
    assert "Warning" not in said


@pytest.mark.parametrize("folder", FOLDERS.values())
def test_a_kustomization_names_image_and_namespace_in_one_place(folder: str, tmp_path: Path) -> None:
    for path in (ROOT / folder).glob("*.yaml"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    path = tmp_path / "kustomization.yaml"
    text = path.read_text().replace("newName: distributed-experiment-kit", "newName: registry.lab/kit")
    path.write_text(text.replace("namespace: default", "namespace: lab"))
    for document in yaml.safe_load_all(kubectl("kustomize", str(tmp_path))):
        assert document["metadata"]["namespace"] == "lab"
        if document["kind"] not in ("Service", "TrainJob"):
            assert '"image": "registry.lab/kit:cpu"' in json.dumps(document)
            assert '"image": "distributed-experiment-kit' not in json.dumps(document)


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize(("kind", "file"), [*SMALL, PRINTED])
def test_applied_by_hand_then_collected_then_summarized(kind: str, file: str, there: Project, namespace: str) -> None:
    project, name = there, "quickstart-2x1" if kind == "indexed" else "mnist-multinode-cpu"
    none = project.runner("collect", file, "--with", f"namespace={namespace}")
    assert none.code == 2
    assert f"{name} there: kubectl apply -f {file}" in none.stderr
    kubectl("apply", "-n", namespace, "-f", file, cwd=project.root)
    results = project.root / f"by-hand-{kind}"
    done = project.runner("collect", file, "--with", f"namespace={namespace}", "--results", results)  # while it runs
    assert done.code == 0, done.snapshot
    (path,) = results.glob("quickstart/*/run.json")
    first = project.record(path.parent)
    assert first["status"] == "completed"
    places = [node["place"] for node in first["outcome"]["exits"]]
    assert {place["machine"] for place in places} == {get("nodes")[0]["metadata"]["name"]}
    assert all(place["digest"].startswith("sha256:") for place in places)
    again = project.runner("collect", file, "--with", f"namespace={namespace}", "--results", results)
    assert (again.code, len(list(results.glob("quickstart/*/run.json")))) == (0, 1)
    assert "collected already" in again.stderr
    path.unlink()
    ended = project.runner("collect", file, "--with", f"namespace={namespace}", "--results", results)  # after its end
    assert ended.code == 0, ended.snapshot
    second = project.record(path.parent)
    assert (second["status"], curve(second), second["events"]) == ("completed", curve(first), first["events"])
    table = project.runner("summarize", results)
    assert "| 2x1 | 1 |" in table.stdout
    assert "started by hand, so no runner supervised it: 1 of 1 runs" in table.stdout
    kubectl("delete", "-n", namespace, "-f", file, "--wait=false", cwd=project.root)


@pytest.mark.usefixtures("loaded")
def test_collecting_can_be_stopped_and_the_job_goes_on(project: Project, namespace: str) -> None:
    request = project.runner(
        *("run", "odd-slow", "--on", "kubernetes", "--layout", "2x1", "--repeat", "1", "--set", "seconds=12"),
        *("--device", "cpu", "--dry-run"),
    )
    file = "slow.yaml"
    (project.root / file).write_text(request.stdout)
    kubectl("create", "-n", namespace, "-f", file, cwd=project.root)
    results = project.root / "stopped"
    process = project.start("collect", file, "--with", f"namespace={namespace}", "--results", results)
    until(lambda: [path for path in results.glob("*/*/raw/*.log") if b"epoch_stop" in path.read_bytes()], 60)
    process.send_signal(subprocess.signal.SIGINT)
    _, stderr = process.communicate()
    assert process.returncode == 130, stderr
    assert list(results.glob("*/*/run.json")) == []
    done = project.runner("collect", file, "--with", f"namespace={namespace}", "--results", results)
    assert done.code == 0, done.snapshot
    kubectl("delete", "-n", namespace, "-f", file, "--wait=false", cwd=project.root)
