"""The checks, over facts: drivers, GPUs, versions, sizes; and what the variables of Gloo and NCCL choose."""

import shutil
from typing import Any

import pytest

from runner.core.network import GLOO, NCCL
from runner.targets.kubernetes import preflight
from runner.targets.kubernetes.target import Options
from runner.targets.slurm import commands
from runner.tools.doctor import cluster, slurm
from runner.tools.doctor.findings import Finding
from runner.tools.doctor.machine import (
    check_difference,
    check_folder,
    check_gpus,
    check_image_disk,
    check_machine,
    check_versions,
)
from runner.tools.doctor.peers import check_variables, chosen_by
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
    "images": 50 * GIB,
}


def states(found: list[Finding]) -> dict[str, str]:
    return {finding.check: finding.state for finding in found if finding.state != "ok"}


def on_gpus(**changes: Any) -> list[Finding]:
    return check_gpus({**HEALTHY, **changes}, "node0", device="cuda")


def test_a_machine_without_gpus_has_no_finding_unless_a_run_shall_use_them() -> None:
    without = {**HEALTHY, "driver": None, "driver_cuda": None, "gpus": 0}
    assert [check_gpus(without, "node0", device=device) for device in ("auto", "cpu")] == [[], []]
    (inside,) = check_gpus(without, "container", device="cuda", image="an image")
    assert (inside.check, inside.state) == ("driver", "wrong")
    assert "NVIDIA Container Toolkit" in inside.mend


@pytest.mark.parametrize(
    ("driver", "cuda", "state"),
    [
        ("525.60.13", "12.1", "ok"),  # by minor version compatibility
        ("525.60.12", "12.1", "wrong"),
        ("470.256.02", "11.8", "ok"),
        ("535.183.01", "99.0", "ok"),  # nothing is claimed about an unknown CUDA
    ],
)
def test_a_driver_is_compared_with_the_cuda_that_torch_was_built_with(driver: str, cuda: str, state: str) -> None:
    found, gpus = on_gpus(driver=driver, cuda=cuda)
    assert (found.check, found.state, gpus.state) == ("driver", state, "ok")
    assert cuda in found.seen
    assert ("525.60.13" in found.mend) == (state == "wrong")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"shm_free_bytes": 2**20}, {"shared-memory": "wrong"}),
        ({"memory_bytes": 600 * 2**20}, {"memory": "warning"}),
        ({"open_files": 64}, {"open-files": "wrong"}),
        ({"open_files": -1}, {}),
        ({"folder_bytes": 500 * 2**20}, {"disk": "warning"}),
        ({"folder_files": 0}, {"disk": "wrong"}),
        ({"images": 10}, {"engine-disk": "wrong"}),
    ],
)
def test_too_little_of_a_resource_is_found(change: dict[str, Any], expected: dict[str, str]) -> None:
    facts = {**HEALTHY, **change}
    found = [*check_machine(facts, "node0", shm_mend="-"), check_folder(facts, "node0")]
    found.append(check_image_disk("/var/lib/docker", facts["images"], "node0"))
    assert states(found) == expected
    assert all(finding.mend for finding in found if finding.state != "ok")


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
    ("variable", "value", "chosen", "state"),
    [
        (GLOO, "ib0,eth0", ["ib0", "eth0"], "ok"),
        (GLOO, "lo", ["lo"], "wrong"),
        (GLOO, "ib7", [], "wrong"),
        (NCCL, "eth", ["eth0", "eth01"], "ok"),
        (NCCL, "=eth0", ["eth0"], "ok"),
        (NCCL, "^docker,lo", ["eth0", "eth01", "ib0"], "ok"),
        (NCCL, "^eth", ["ib0", "docker0", "lo"], "wrong"),
    ],
)
def test_interfaces_of_gloo_and_nccl_have_to_reach_the_peers(
    variable: str, value: str, chosen: list[str], state: str
) -> None:
    names = ["eth0", "eth01", "ib0", "docker0"]
    assert chosen_by(variable, value, [*names, "lo"]) == chosen
    here = {"interfaces": names, "variables": {GLOO: "", NCCL: "", variable: value}}
    (found,) = check_variables(here, "node0", ["eth0"])
    assert (found.check, found.state) == ("interface", state)
    assert state == "ok" or f"export {variable}=" in found.mend


def test_what_a_cluster_knows_and_allows_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(job: str = "trainjob", **options: str) -> dict[str, str]:
        monkeypatch.setattr(cluster, "Cluster", lambda *_: Answers(**options))
        return {finding.check: finding.seen for finding in cluster.check_cluster(Options(job=job), "cpu", "kit", "vm")}

    assert {"crd", "rights", "nodes"} <= found().keys()
    assert "TrainJob" in found()["crd"]
    assert "JobSet" in found(lacks="JobSet")["crd"]
    assert "lab to delete trainingruntimes" in found(forbids="delete trainingruntimes")["rights"]
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
