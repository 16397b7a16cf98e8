"""The command `runner doctor`: output, exit codes and refusals."""

import json
import socket
from pathlib import Path

import pytest

from tests.support.projects import Project, complete

NOTHING = {"DOCKER_HOST": "unix:///none.sock", "KUBECONFIG": "/none"}


def findings(stdout: str) -> list[dict[str, str]]:
    return [finding for finding in json.loads(stdout)["findings"] if finding["state"] != "ok"]


def test_a_healthy_machine_has_no_finding(project: Project) -> None:
    before = project.written()
    done = project.runner("doctor", "--json", "--device", "cpu", env=NOTHING)
    assert done.code == 0, done.snapshot
    said = json.loads(done.stdout)
    assert list(said) == ["target", "device", "state", "counts", "findings"]
    assert (said["target"], said["device"], said["state"]) == ("local", "cpu", "ok")
    checks = [finding["check"] for finding in said["findings"]]
    assert checks == ["python", "torch", "shared-memory", "memory", "open-files", "disk"]
    assert all(list(finding) == ["check", "state", "where", "seen", "mend"] for finding in said["findings"])
    assert project.written() == before


@pytest.mark.real_processes
def test_few_open_files_are_wrong(project: Project) -> None:
    words = ["sh", "-c", 'ulimit -n 200; exec "$0" "$@"', project.command, "doctor", "--json"]
    done = complete(words, project.root, project.environment())
    (found,) = findings(done.stdout)
    assert (done.code, found["check"], found["mend"]) == (1, "open-files", "ulimit -n 65536")


@pytest.mark.parametrize(
    ("words", "env", "check", "mend"),
    [
        (("--results", "/proc/results"), {}, "disk", "--results FOLDER"),  # /proc has no free space
        ((), {"NCCL_SOCKET_IFNAME": "=nowhere0"}, "interface", "unset NCCL_SOCKET_IFNAME"),
        (("--on", "compose"), NOTHING, "engine", ""),
        (("--on", "kubernetes"), NOTHING, "kubeconfig", ""),
    ],
)
def test_a_defect_is_one_finding_with_its_remedy(
    project: Project, words: tuple[str, ...], env: dict[str, str], check: str, mend: str
) -> None:
    done = project.runner("doctor", "--json", *words, env=env)
    (found,) = findings(done.stdout)
    assert (done.code, found["check"], found["state"]) == (1, check, "wrong")
    assert found["mend"]
    assert mend in found["mend"]


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (("--on", "compose", "--with", "job=indexed"), "'job'"),
        (("--device", "gpu"), "--device gpu"),
        (("--port", "0"), "--port"),
    ],
)
def test_invalid_options_are_refused_in_one_line(project: Project, words: tuple[str, ...], word: str) -> None:
    assert word in project.refused("doctor", *words)


@pytest.mark.slow
def test_a_cluster_that_does_not_answer_is_a_finding(project: Project, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections and never answers
        server = f"http://127.0.0.1:{silent.getsockname()[1]}"
        (tmp_path / "config").write_text(
            "{apiVersion: v1, kind: Config, current-context: c, users: [{name: u, user: {}}], "
            f"clusters: [{{name: c, cluster: {{server: '{server}'}}}}], "
            "contexts: [{name: c, context: {cluster: c, user: u}}]}"
        )
        done = project.runner("doctor", "--on", "kubernetes", env={"KUBECONFIG": str(tmp_path / "config")})
    assert done.code == 1
    assert "no answer within" in done.stdout
