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


NO_GPU = {"driver": None, "driver_cuda": None, "gpus": 0}


@pytest.mark.parametrize(
    ("change", "expected", "mend"),
    [
        ({}, {}, ""),
        ({**NO_GPU, "device": "auto"}, {}, ""),
        ({**NO_GPU, "device": "cpu"}, {}, ""),
        (NO_GPU, {"driver": "wrong"}, "NVIDIA Container Toolkit"),
        ({"driver": "525.60.13"}, {}, ""),  # by minor version compatibility
        ({"driver": "525.60.12"}, {"driver": "wrong"}, "525.60.13"),
        ({"driver": "470.256.02", "cuda": "11.8"}, {}, ""),
        ({"cuda": "99.0"}, {}, ""),  # nothing is claimed about an unknown CUDA
        ({"cuda": None}, {"driver": "wrong"}, "torch"),
        ({"driver_error": 999}, {"gpus": "wrong"}, "nvidia-smi"),
        ({"gpus": 0}, {"gpus": "wrong"}, "CUDA_VISIBLE_DEVICES"),
        ({"shm_free_bytes": 2**20}, {"shared-memory": "wrong"}, "/dev/shm"),
        ({"memory_bytes": 600 * 2**20}, {"memory": "warning"}, "memory"),
        ({"open_files": 64}, {"open-files": "wrong"}, "ulimit"),
        ({"open_files": -1}, {}, ""),
        ({"folder_bytes": 500 * 2**20}, {"disk": "warning"}, "--results"),
        ({"folder_files": 0}, {"disk": "wrong"}, "--results"),
        ({"images": 10}, {"engine-disk": "wrong"}, "prune"),
        ({"torch": "2.4.0+cu121"}, {"versions": "warning"}, "image"),
        ({"python": "3.11.9", "torch": "2.3.1+cpu", "nccl": None}, {}, ""),
        ({"torch": None}, {"torch": "wrong"}, "image"),
        ({"torchrun": None}, {"torchrun": "wrong"}, "image"),
        ({"torchrun": None, "image": ""}, {}, ""),  # the runner calls torch's module itself
    ],
)
def test_a_lack_of_a_container_is_one_finding_with_its_remedy(
    change: dict[str, Any], expected: dict[str, str], mend: str
) -> None:
    facts = {**HEALTHY, **change}
    image, device = facts.pop("image", "kit"), facts.pop("device", "cuda")
    found = [
        *check_versions(facts, "node0", image=image),
        *check_difference(HEALTHY, facts, "node0"),
        *check_gpus(facts, "node0", device=device, image=image),
        *check_machine(facts, "node0", shm_mend="mount /dev/shm"),
        check_folder(facts, "node0"),
        check_image_disk("/var/lib/docker", facts["images"], "node0"),
    ]
    assert states(found) == expected
    assert all(mend in finding.mend for finding in found if finding.state != "ok")


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

    assert "TrainJob" in found()["crd"]
    assert {"rights", "nodes"} <= found().keys()
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

    for path in (None, "sinfo"):  # without Slurm's commands, and without an answer
        monkeypatch.setattr(shutil, "which", lambda _, path=path: path)
        assert found(None) == [("slurm", "wrong", "login")]
    answers, old, none = ("slurm", "ok", "login"), ("nodes", "warning", "old"), ("nodes", "wrong", "login")
    rows = "cpu|idle|2\ngpu|mix|1\ngpu|drain|1\nold|down*|3\n"
    assert found(rows) == [answers, ("nodes", "ok", "cpu"), ("nodes", "warning", "gpu"), old]
    assert found("old|down*|3\n", "old") == [answers, old, none]
    assert found("", "nope") == [answers, none]
