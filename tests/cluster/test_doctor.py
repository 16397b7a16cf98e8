"""`runner doctor --on kubernetes`, which creates nothing."""

import json
import os
import re
from pathlib import Path

import pytest

from tests.cluster.test_refusals import kubeconfig, server
from tests.support.cluster import kubectl, things
from tests.support.projects import Project

pytestmark = pytest.mark.cluster


def examined(project: Project, *words: str, env: dict[str, str] | None = None) -> dict[str, str]:
    """Return the findings that are not ok, by their checks."""
    done = project.runner("doctor", "--on", "kubernetes", "--device", "cpu", "--json", *words, env=env)
    assert done.stdout, done.stderr
    findings = json.loads(done.stdout)["findings"]
    found = {
        finding["check"]: f"{finding['seen']}: {finding['mend']}" for finding in findings if finding["state"] != "ok"
    }
    assert done.code == bool(found), done.stdout
    return found


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("job", ["pytorchjob", pytest.param("trainjob", marks=pytest.mark.trainer)])
def test_a_healthy_cluster_has_no_finding(project: Project, namespace: str, job: str) -> None:
    assert examined(project, "--with", f"namespace={namespace}", "--with", f"job={job}") == {}
    assert things(namespace) == []


def test_rights_that_are_missing_are_named(project: Project, namespace: str, tmp_path: Path) -> None:
    kubectl("create", "serviceaccount", "visitor", "-n", namespace)
    token = kubectl("create", "token", "visitor", "-n", namespace).strip()
    found = examined(project, "--with", f"namespace={namespace}", env=kubeconfig(tmp_path, server(), token))
    assert list(found) == ["rights"]
    assert re.search("create pytorchjobs, delete pytorchjobs.*kubectl auth can-i --list", found["rights"])


def test_a_namespace_that_is_not_there(project: Project) -> None:
    found = examined(project, "--with", "namespace=nowhere")
    assert list(found) == ["namespace"]
    assert found["namespace"].endswith(": kubectl create namespace nowhere")


def test_without_the_operator_its_installation_is_named(project: Project) -> None:
    if "KIT_BARE_KUBECONFIG" not in os.environ:
        pytest.skip("KIT_BARE_KUBECONFIG names no cluster without the operator")
    found = examined(project, env={"KUBECONFIG": os.environ["KIT_BARE_KUBECONFIG"]})
    assert re.search("PyTorchJob.*kubectl apply", found["crd"])
