"""The checks, over facts: drivers, GPUs, versions, sizes; and what the variables of Gloo and NCCL choose."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runner.core.network import GLOO, NCCL
from runner.targets.kubernetes import preflight
from runner.targets.kubernetes.target import Options
from runner.targets.slurm import commands
from runner.tools.doctor import cluster, inside, slurm
from runner.tools.doctor.findings import Finding
from runner.tools.doctor.machine import (
    check_difference,
    check_folder,
    check_gpus,
    check_image_disk,
    check_machine,
    check_versions,
)
from runner.tools.doctor.peers import chosen_by
from tests.support.trainer import Answers

GIB = 2**30
HEALTHY = {
    "host": "node0",
    "python": "3.11.7",
    "torch": "2.3.1+cu121",
    "cuda": "12.1",
    "nccl": "2.20.5",
    "torchrun": "/usr/bin/torchrun",
    "driver": "535.183.01",
    "driver_cuda": "12.2",
    "gpus": 2,
    "driver_error": None,
    "shm_bytes": 8 * GIB,
    "shm_free_bytes": 8 * GIB,
    "memory_bytes": 16 * GIB,
    "open_files": 1024,
    "folder": "results",
    "folder_bytes": 50 * GIB,
    "folder_writable": True,
    "folder_files": None,
}


def states(found: list[Finding]) -> dict[str, str]:
    return {finding.check: finding.state for finding in found if finding.state != "ok"}


def on_gpus(**changes: Any) -> list[Finding]:
    return check_gpus({**HEALTHY, **changes}, "node0", device="cuda")


def test_a_healthy_machine_with_gpus_has_no_finding() -> None:
    found = [
        *check_versions(HEALTHY, "node0"),
        *on_gpus(),
        *check_machine(HEALTHY, "node0", shm_mend="-"),
        check_folder(HEALTHY, "node0"),
        *check_difference(HEALTHY, HEALTHY, "node1"),
    ]
    assert states(found) == {}
    assert {"python", "torch", "driver", "gpus", "shared-memory", "memory", "open-files", "disk"} <= {
        finding.check for finding in found
    }


def test_a_machine_without_gpus_has_no_finding_unless_a_run_shall_use_them() -> None:
    without = {**HEALTHY, "driver": None, "driver_cuda": None, "gpus": 0}
    assert check_gpus(without, "node0", device="auto") == []
    assert check_gpus(without, "node0", device="cpu") == []
    (inside,) = check_gpus(without, "container", device="cuda", image="an image")
    assert (inside.check, inside.state) == ("driver", "wrong")
    assert "NVIDIA Container Toolkit" in inside.mend


@pytest.mark.parametrize(
    ("driver", "cuda", "state"),
    [
        ("525.60.13", "12.1", "ok"),  # by minor version compatibility
        ("525.60.12", "12.1", "wrong"),
        ("470.256.02", "11.8", "ok"),
        ("535.183.01", "99.0", "ok"),  # of a CUDA that is not known nothing is claimed
    ],
)
def test_a_driver_is_compared_with_the_cuda_that_torch_was_built_with(driver: str, cuda: str, state: str) -> None:
    found, gpus = on_gpus(driver=driver, cuda=cuda)
    assert (found.check, found.state, gpus.state) == ("driver", state, "ok")
    assert cuda in found.seen
    if (state, cuda) == ("wrong", "12.1"):
        assert "install driver 525.60.13 or newer" in found.mend


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"shm_free_bytes": 2**20}, {"shared-memory": "wrong"}),
        ({"memory_bytes": 600 * 2**20}, {"memory": "warning"}),
        ({"open_files": 64}, {"open-files": "wrong"}),
        ({"open_files": -1}, {}),
        ({"folder_bytes": 500 * 2**20}, {"disk": "warning"}),
        ({"folder_files": 0}, {"disk": "wrong"}),
    ],
)
def test_what_is_too_small_is_found(change: dict[str, Any], expected: dict[str, str]) -> None:
    facts = {**HEALTHY, **change}
    found = [*check_machine(facts, "node0", shm_mend="-"), check_folder(facts, "node0")]
    assert states(found) == expected
    assert all(finding.mend for finding in found if finding.state != "ok")


def test_the_disk_of_the_engine_is_checked_where_it_can_be_seen() -> None:
    assert states([check_image_disk("/var/lib/docker", 10, "vm")]) == {"engine-disk": "wrong"}
    assert states([check_image_disk("/var/lib/docker", GIB, "vm")]) == {"engine-disk": "warning"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"torch": "2.4.0+cu121"}, {"versions": "warning"}),
        ({"python": "3.11.9", "torch": "2.3.1+cpu", "nccl": None}, {}),
        ({"torch": None}, {}),
    ],
)
def test_other_versions_in_a_container_are_a_warning(change: dict[str, Any], expected: dict[str, str]) -> None:
    assert states(check_difference(HEALTHY, {**HEALTHY, **change}, "node1")) == expected


def test_an_image_without_torch_or_torchrun_is_found() -> None:
    assert states(check_versions({**HEALTHY, "torch": None}, "container", image="plain")) == {"torch": "wrong"}
    assert states(check_versions({**HEALTHY, "torchrun": None}, "container", image="x")) == {"torchrun": "wrong"}
    assert states(check_versions({**HEALTHY, "torchrun": None}, "vm")) == {}, "the runner calls torch's module itself"


@pytest.mark.parametrize(
    ("variable", "value", "chosen"),
    [
        (GLOO, "ib0,eth0", ["ib0", "eth0"]),
        (NCCL, "eth", ["eth0", "eth01"]),
        (NCCL, "=eth0", ["eth0"]),
        (NCCL, "^docker,lo", ["eth0", "eth01", "ib0"]),
    ],
)
def test_variables_choose_interfaces_as_gloo_and_nccl_read_them(variable: str, value: str, chosen: list[str]) -> None:
    assert chosen_by(variable, value, ["eth0", "eth01", "ib0", "docker0", "lo"]) == chosen


def test_the_script_that_looks_around_in_a_container_has_nothing_that_python_3_8_lacks() -> None:
    words = ["check", "--isolated", "--target-version", "py38", "--select", "FA102", inside.__file__]
    done = subprocess.run([Path(sys.executable).with_name("ruff"), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_what_a_cluster_knows_and_allows_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(job: str = "trainjob", **options: str) -> dict[str, str]:
        monkeypatch.setattr(cluster, "Cluster", lambda *_: Answers(**options))
        return {finding.check: finding.seen for finding in cluster.check_cluster(Options(job=job), "cpu", "kit", "vm")}

    assert found()["crd"] == "it knows TrainingRuntime and TrainJob"
    assert found()["rights"].startswith("the user may create")
    assert found()["nodes"] == "no node takes pods"
    assert "JobSet" in found(lacks="JobSet")["crd"]
    assert found(forbids="delete trainingruntimes")["rights"] == "no right in namespace lab to delete trainingruntimes"
    monkeypatch.setattr(preflight, "enforces_restricted", lambda _: True)
    assert ["pod-security" in found(job) for job in ("pytorchjob", "indexed")] == [True, False]


@pytest.mark.parametrize(
    ("change", "device", "expected"),
    [
        ({}, "cpu", {}),
        ({"conditions": [{"type": "Ready", "status": "False"}]}, "cpu", {"nodes": "wrong"}),
        (
            {"conditions": [{"type": name, "status": "True"} for name in ("Ready", "DiskPressure")]},
            *("cpu", {"nodes": "warning"}),
        ),
        ({"images": []}, "cpu", {"image": "warning"}),
        ({}, "cuda", {"gpus": "wrong"}),
        ({"allocatable": {cluster.GPU: "2"}}, "cuda", {}),
    ],
)
def test_what_the_nodes_of_a_cluster_lack_is_found(
    change: dict[str, Any], device: str, expected: dict[str, str]
) -> None:
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "8", "memory": "1024Ki"}}
    status |= {"images": [{"names": ["docker.io/library/kit:1"]}], **change}
    node = {"metadata": {"name": "n0"}, "status": status}
    assert states(cluster.check_nodes([node], "https://c", "kit:1", device)) == expected


def test_a_controller_that_does_not_answer_and_nodes_that_take_no_jobs_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def found(printed: str | None, partition: str = "") -> list[tuple[str, str, str]]:
        def call(*_: object, **__: object) -> str:
            if printed is None:
                raise commands.SlurmError("connect failure")
            return printed

        monkeypatch.setattr(commands, "call", call)
        findings = slurm.check_slurm(partition, "login")
        return [(finding.check, finding.state, finding.where) for finding in findings]

    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert found("") == [("slurm", "wrong", "login")]
    monkeypatch.setattr(shutil, "which", lambda name: name)
    assert found(None) == [("slurm", "wrong", "login")]
    answers, old = ("slurm", "ok", "login"), ("nodes", "warning", "old")
    rows = "cpu|idle|2\ngpu|mix|1\ngpu|drain|1\nold|down*|3\n"
    assert found(rows) == [answers, ("nodes", "ok", "cpu"), ("nodes", "warning", "gpu"), old]
    assert found("old|down*|3\n", "old") == [answers, old, ("nodes", "wrong", "login")]
    assert found("", "nope") == [answers, ("nodes", "wrong", "login")]
