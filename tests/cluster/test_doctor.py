"""`runner doctor --on kubernetes`: what a cluster lacks is named, and nothing is created in it."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.test_refusals import kubeconfig, server
from tests.support.cluster import kubectl, things
from tests.support.projects import Ended, Project

pytestmark = pytest.mark.cluster


def examined(project: Project, *words: str, env: dict[str, str] | None = None) -> tuple[Ended, list[dict[str, Any]]]:
    done = project.runner("doctor", "--on", "kubernetes", "--device", "cpu", "--json", *words, env=env)
    assert done.stdout, done.stderr
    return done, [finding for finding in json.loads(done.stdout)["findings"] if finding["state"] != "ok"]


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize(
    ("job", "crd"),
    [("pytorchjob", "PyTorchJob"), pytest.param("trainjob", "TrainJob", marks=pytest.mark.trainer)],
)
def test_a_healthy_cluster_has_no_finding(project: Project, namespace: str, job: str, crd: str) -> None:
    done, found = examined(project, "--with", f"namespace={namespace}", "--with", f"job={job}")
    assert (done.code, found) == (0, []), done.stdout
    seen = {finding["check"]: finding["seen"] for finding in json.loads(done.stdout)["findings"]}
    assert crd in seen["crd"]
    assert "cores" in seen["nodes"]
    assert things(namespace) == []


def test_rights_that_are_missing_are_named(project: Project, namespace: str, tmp_path: Path) -> None:
    kubectl("create", "serviceaccount", "visitor", "-n", namespace)
    token = kubectl("create", "token", "visitor", "-n", namespace).strip()
    env = kubeconfig(tmp_path, server(), token)
    done, found = examined(project, "--with", f"namespace={namespace}", env=env)
    assert (done.code, [finding["check"] for finding in found]) == (1, ["rights"])
    assert "create pytorchjobs, delete pytorchjobs" in found[0]["seen"]
    assert "kubectl auth can-i --list" in found[0]["mend"]


def test_a_namespace_that_is_not_there(project: Project) -> None:
    done, (found,) = examined(project, "--with", "namespace=nowhere")
    assert (done.code, found["check"]) == (1, "namespace")
    assert found["mend"] == "kubectl create namespace nowhere"


def test_without_the_operator_its_installation_is_named(project: Project) -> None:
    if "KIT_BARE_KUBECONFIG" not in os.environ:
        pytest.skip("KIT_BARE_KUBECONFIG names no cluster without the operator")
    done, found = examined(project, env={"KUBECONFIG": os.environ["KIT_BARE_KUBECONFIG"]})
    (missing,) = [finding for finding in found if finding["check"] == "crd"]
    assert (done.code, "PyTorchJob" in missing["seen"]) == (1, True)
    assert "kubectl apply" in missing["mend"]
