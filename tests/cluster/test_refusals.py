"""What a cluster would not start is refused in one line, before anything is created or written."""

from pathlib import Path

import pytest
import yaml

from tests.support.cluster import kubectl, things
from tests.support.projects import Ended, Project

pytestmark = pytest.mark.cluster


def refused(project: Project, *words: str, env: dict[str, str] | None = None) -> Ended:
    before = project.written()
    done = project.runner(
        *("run", "toy", "--layout", "2x1", "--device", "cpu", "--repeat", "1", "--on", "kubernetes"), *words, env=env
    )
    assert done.code == 2, done.snapshot
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert project.written() == before
    return done


def kubeconfig(tmp_path: Path, server: str, token: str = "") -> dict[str, str]:
    path = tmp_path / "config"
    cluster = {"server": server, "insecure-skip-tls-verify": True}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path.write_text(yaml.safe_dump(config))
    return {"KUBECONFIG": str(path)}


def server() -> str:
    return kubectl("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")


@pytest.mark.parametrize("text", [None, "", "a: [", "apiVersion: v1\nkind: Config\n"])
def test_no_kubeconfig_or_one_that_is_none(project: Project, tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    assert f"kubeconfig {path}: " in refused(project, env={"KUBECONFIG": str(path)}).stderr


def test_no_cluster_answers(project: Project, tmp_path: Path) -> None:
    said = refused(project, env=kubeconfig(tmp_path, "https://127.0.0.1:1")).stderr
    assert "https://127.0.0.1:1 does not answer" in said
    assert "Connection refused" in said


def test_a_cluster_that_does_not_know_who_asks(project: Project, tmp_path: Path) -> None:
    assert "log in again" in refused(project, env=kubeconfig(tmp_path, server(), "wrong")).stderr


def test_pods_that_the_namespace_s_limits_forbid(project: Project, namespace: str) -> None:
    limits = {"limits": [{"type": "Container", "max": {"cpu": "100m"}}]}
    range_ = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": limits}
    (project.root / "limits.yaml").write_text(yaml.safe_dump(range_))
    kubectl("create", "-n", namespace, "-f", "limits.yaml", cwd=project.root)
    said = refused(project, "--with", f"namespace={namespace}").stderr
    assert "maximum cpu usage per Container is 100m" in said
    assert things(namespace) == []
