"""Refusals of a cluster, each in one line before anything is created or written."""

from pathlib import Path

import pytest

from tests.support.cluster import kubectl, things
from tests.support.projects import Project

pytestmark = pytest.mark.cluster


CONFIG = """
clusters: [{name: c, cluster: {server: "SERVER", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: "TOKEN"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
"""
SMALL = b"""
apiVersion: v1
kind: LimitRange
metadata: {name: small}
spec: {limits: [{type: Container, max: {cpu: 100m}}]}
"""


def refused(project: Project, *words: str, env: dict[str, str] | None = None) -> str:
    before = project.written()
    on = ("--on", "kubernetes", "--device", "cpu", "--layout", "2x1")
    said = project.refused("run", "toy", *on, *words, env=env)
    assert project.written() == before
    return said


def kubeconfig(tmp_path: Path, server: str, token: str = "") -> dict[str, str]:
    path = tmp_path / "config"
    path.write_text(CONFIG.replace("SERVER", server).replace("TOKEN", token))
    return {"KUBECONFIG": str(path)}


def server() -> str:
    return kubectl("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")


@pytest.mark.parametrize("text", [None, "", "a: [", "apiVersion: v1\nkind: Config\n"])
def test_no_kubeconfig_or_one_that_is_none(project: Project, tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    assert f"kubeconfig {path}: " in refused(project, env={"KUBECONFIG": str(path)})


def test_no_cluster_answers(project: Project, tmp_path: Path) -> None:
    said = refused(project, env=kubeconfig(tmp_path, "https://127.0.0.1:1"))
    assert "https://127.0.0.1:1 does not answer" in said
    assert "Connection refused" in said


def test_a_cluster_that_does_not_know_who_asks(project: Project, tmp_path: Path) -> None:
    assert "log in again" in refused(project, env=kubeconfig(tmp_path, server(), "wrong"))


def test_pods_that_the_namespace_s_limits_forbid(project: Project, namespace: str) -> None:
    kubectl("create", "-n", namespace, "-f", "-", stdin=SMALL)
    assert "maximum cpu usage" in refused(project, "--with", f"namespace={namespace}")
    assert things(namespace) == []
