"""The command: what it prints, how it exits, and what it refuses."""

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.projects import Project, complete


def findings(stdout: str) -> list[dict[str, str]]:
    """The findings of a document that are not ok."""
    return [finding for finding in json.loads(stdout)["findings"] if finding["state"] != "ok"]


def test_a_healthy_machine_has_no_finding(project: Project) -> None:
    before = project.written()
    done = project.runner("doctor", "--json", "--device", "cpu")
    assert done.code == 0, done.snapshot
    said = json.loads(done.stdout)
    assert list(said) == ["target", "device", "state", "counts", "findings"]
    assert (said["target"], said["device"], said["state"]) == ("local", "cpu", "ok")
    checks = [finding["check"] for finding in said["findings"]]
    assert checks == ["python", "torch", "shared-memory", "memory", "open-files", "disk"]
    assert all(list(finding) == ["check", "state", "where", "seen", "mend"] for finding in said["findings"])
    assert project.written() == before


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "full"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=64k", "kit-full", str(folder)]
    if os.geteuid() or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("a small disk needs root and mount")
    try:
        (folder / "all").write_bytes(bytes(60_000))
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_of_the_results_is_wrong(project: Project, full_disk: Path) -> None:
    done = project.runner("doctor", "--results", full_disk / "results", "--json")
    assert done.code == 1
    (found,) = findings(done.stdout)
    assert (found["check"], found["state"]) == ("disk", "wrong")
    assert f"KiB free for {full_disk}/results" in found["seen"]
    assert "--results FOLDER" in found["mend"]


@pytest.mark.real_processes
def test_few_open_files_are_a_finding(project: Project) -> None:
    words = ["sh", "-c", 'ulimit -n 200; exec "$0" "$@"', project.command, "doctor", "--json"]
    done = complete(words, project.root, project.environment())
    (found,) = findings(done.stdout)
    assert (done.code, found["check"], found["mend"]) == (1, "open-files", "ulimit -n 65536")


def test_a_wrong_interface_in_the_environment_is_found_also_without_peers(project: Project) -> None:
    done = project.runner("doctor", "--json", env={"NCCL_SOCKET_IFNAME": "=nowhere0"})
    (found,) = findings(done.stdout)
    assert (done.code, found["check"]) == (1, "interface")
    assert "NCCL_SOCKET_IFNAME==nowhere0 chooses no interface" in found["seen"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--on", "compose", "--with", "job=indexed"), "target compose has no option 'job'"),
        (("--device", "gpu"), "--device gpu: "),
        (("--port", "0"), "--port"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(project: Project, words: tuple[str, ...], why: str) -> None:
    done = project.runner("doctor", *words)
    assert (done.code, done.stdout) == (2, ""), done.snapshot
    assert why in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_engine_or_a_cluster_that_is_not_there_is_wrong_only_where_it_is_asked_for(
    project: Project, tmp_path: Path
) -> None:
    nothing = {"DOCKER_HOST": f"unix://{tmp_path}/none.sock", "KUBECONFIG": str(tmp_path / "none")}
    assert project.runner("doctor", env=nothing).code == 0
    for target, check in (("compose", "engine"), ("kubernetes", "kubeconfig")):
        done = project.runner("doctor", "--on", target, "--json", env=nothing)
        (found,) = findings(done.stdout)
        assert (done.code, found["check"], found["state"]) == (1, check, "wrong")
        assert found["mend"]


@pytest.mark.slow
def test_a_cluster_that_does_not_answer_is_reported_in_time(project: Project, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts, and never says anything
        server = f"http://127.0.0.1:{silent.getsockname()[1]}"
        config = {"apiVersion": "v1", "kind": "Config", "current-context": "c"}
        config |= {"clusters": [{"name": "c", "cluster": {"server": server}}], "users": [{"name": "u", "user": {}}]}
        config |= {"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}
        (tmp_path / "config").write_text(json.dumps(config))
        done = project.runner("doctor", "--on", "kubernetes", env={"KUBECONFIG": str(tmp_path / "config")})
    assert done.code == 1
    assert "no answer within 12 s" in done.stdout
