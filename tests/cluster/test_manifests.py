"""The files of k8s/ on a real cluster: accepted, applied by hand and collected."""

import json
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.targets.committed_files import FOLDERS, read_listing
from runner.targets.kubernetes.job import COMES_TOO_SOON
from tests.support.cluster import kubectl
from tests.support.launches import until
from tests.support.manifests import SCHEMAS
from tests.support.projects import Project
from tests.support.same_records import curve

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
TRAINER = [pytest.mark.trainer]
FILES = [
    pytest.param(kind, f"{folder}/{name}.yaml", marks=TRAINER * (kind == "trainjob"))
    for kind, folder in FOLDERS.items()
    for name in read_listing(ROOT).kubernetes.files
]
PRINTED = pytest.param("indexed", "job.yaml")
"""A job that is not committed: the output of `--dry-run`."""
CRDS = (
    "pytorchjobs.kubeflow.org",
    "trainjobs.trainer.kubeflow.org",
    "trainingruntimes.trainer.kubeflow.org",
    "jobsets.jobset.x-k8s.io",
)
SMALL = [file for file in FILES if str(file.values[1]).endswith("/mnist-multinode-cpu.yaml")]


@pytest.mark.parametrize("crd", [pytest.param(crd, marks=TRAINER * ("torch" not in crd)) for crd in CRDS])
def test_what_is_validated_offline_is_the_schema_that_the_cluster_has(crd: str) -> None:
    def bare(value: dict[str, Any]) -> dict[str, Any]:
        return {key: item for key, item in value.items() if key != "description" or not isinstance(item, str)}

    found = json.loads(kubectl("get", "crd", crd, "-o", "json"), object_hook=bare)
    kept = json.loads((SCHEMAS / f"{crd.partition('s.')[0]}.schema.json").read_text("utf-8"))
    assert found["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == kept


def print_job(
    project: Project, file: str = "job.yaml", words: Sequence[str] = ("quickstart", "--with", "job=indexed")
) -> None:
    on = ("--on", "kubernetes", "--layout", "2x1", "--device", "cpu", "--repeat", "1", "--dry-run")
    (project.root / file).write_text(project.runner("run", *words, *on).stdout)


@pytest.mark.parametrize(("kind", "file"), [*FILES, PRINTED])
def test_the_api_server_and_the_operator_accept_every_file(kind: str, file: str, project: Project) -> None:
    print_job(project)
    said = kubectl("create", "--dry-run=server", "--validate=strict", "-f", file, cwd=project.root, check=False)
    assert said.count("created (server dry run)") == (2 if kind == "indexed" else 1), said
    assert (COMES_TOO_SOON in said) == (kind == "trainjob")  # in a dry run its runtime was not created
    assert "Warning" not in said


@pytest.mark.parametrize("folder", FOLDERS.values())
def test_a_kustomization_names_image_and_namespace_in_one_place(folder: str, tmp_path: Path) -> None:
    path = Path(shutil.copytree(ROOT / folder, tmp_path / "k8s")) / "kustomization.yaml"
    text = path.read_text().replace("newName: distributed-experiment-kit", "newName: registry.lab/kit")
    path.write_text(text.replace("namespace: default", "namespace: lab"))
    for document in yaml.safe_load_all(kubectl("kustomize", str(path.parent))):
        assert document["metadata"]["namespace"] == "lab"
        if document["kind"] not in ("Service", "TrainJob"):
            assert '"image": "registry.lab/kit:cpu"' in json.dumps(document)
            assert '"image": "distributed-experiment-kit' not in json.dumps(document)


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize(("kind", "file"), [*SMALL, PRINTED])
def test_applied_by_hand_then_collected_then_summarized(kind: str, file: str, project: Project, namespace: str) -> None:
    print_job(project)
    name = "quickstart-2x1" if kind == "indexed" else "mnist-multinode-cpu"
    results = project.root / f"by-hand-{kind}"
    collect = ("collect", file, "--with", f"namespace={namespace}", "--results", results)
    assert f"{name}: kubectl apply -f {file}" in project.refused(*collect)
    kubectl("apply", "-n", namespace, "-f", file, cwd=project.root)
    project.runner(*collect)  # while it runs
    (path,) = results.glob("quickstart/*/run.json")
    first = project.record(path.parent)
    assert first["status"] == "completed"
    for node in first["outcome"]["exits"]:
        assert node["place"]["machine"]
        assert node["place"]["digest"].startswith("sha256:")
    again = project.runner(*collect)
    assert (again.code, "collected already" in again.stderr) == (0, True)
    path.unlink()
    project.runner(*collect)  # after its end
    second = project.record(path.parent)
    assert (second["status"], curve(second), second["events"]) == ("completed", curve(first), first["events"])
    assert "started by hand" in project.runner("summarize", results).stdout
    kubectl("delete", "-n", namespace, "-f", file, "--wait=false", cwd=project.root)


@pytest.mark.usefixtures("loaded")
def test_collecting_can_be_stopped_and_the_job_goes_on(project: Project, namespace: str) -> None:
    print_job(project, "slow.yaml", ("odd-slow", "--set", "seconds=12"))
    kubectl("create", "-n", namespace, "-f", "slow.yaml", cwd=project.root)
    results = project.root / "stopped"
    collect = ("collect", "slow.yaml", "--with", f"namespace={namespace}", "--results", results)
    process = project.start(*collect)
    until(lambda: [path for path in results.glob("*/*/raw/*.log") if b"epoch_stop" in path.read_bytes()], 60)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate()
    assert process.returncode == 130, stderr
    assert list(results.glob("*/*/run.json")) == []
    assert project.runner(*collect).code == 0
    kubectl("delete", "-n", namespace, "-f", "slow.yaml", "--wait=false", cwd=project.root)
