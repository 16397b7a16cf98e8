"""The checks, over facts: drivers, GPUs, versions, sizes; and what the variables of Gloo and NCCL choose."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runner.core.network import GLOO, NCCL
from runner.targets.kubernetes.target import Options
from runner.tools.doctor import cluster, inside, slurm
from runner.tools.doctor.finding import Finding
from runner.tools.doctor.gpus import check_gpus
from runner.tools.doctor.machine import check_difference, check_folder, check_image_disk, check_machine, check_versions
from runner.tools.doctor.network import chosen_by
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
        *check_folder(HEALTHY, "node0"),
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
        ("515.105.01", "12.1", "wrong"),
        ("525.60.13", "12.1", "ok"),  # by minor version compatibility
        ("525.60.12", "12.1", "wrong"),
        ("470.256.02", "11.8", "ok"),
        ("580.65.06", "13.1", "ok"),
        ("535.183.01", "99.0", "ok"),  # of a CUDA that is not known nothing is claimed
    ],
)
def test_a_driver_is_compared_with_the_cuda_that_torch_was_built_with(driver: str, cuda: str, state: str) -> None:
    (found,) = [finding for finding in on_gpus(driver=driver, cuda=cuda) if finding.check == "driver"]
    assert found.state == state, found
    assert cuda in found.seen
    if (state, cuda) == ("wrong", "12.1"):
        assert "install driver 525.60.13 or newer" in found.mend


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"shm_bytes": 64 * 2**20, "shm_free_bytes": 64 * 2**20}, {"shared-memory": "wrong"}),
        ({"shm_free_bytes": 2**20}, {"shared-memory": "wrong"}),
        ({"memory_bytes": 600 * 2**20}, {"memory": "warning"}),
        ({"open_files": 64}, {"open-files": "wrong"}),
        ({"open_files": -1}, {}),
        ({"folder_bytes": 500 * 2**20}, {"disk": "warning"}),
        ({"folder_files": 0}, {"disk": "wrong"}),
        ({"folder_writable": False}, {"disk": "wrong"}),
    ],
)
def test_what_is_too_small_is_found(change: dict[str, Any], expected: dict[str, str]) -> None:
    facts = {**HEALTHY, **change}
    found = [*check_machine(facts, "node0", shm_mend="-"), *check_folder(facts, "node0")]
    assert states(found) == expected
    assert all(finding.mend for finding in found if finding.state != "ok")


def test_the_disk_of_the_engine_is_checked_where_it_can_be_seen() -> None:
    assert states(check_image_disk("/var/lib/docker", 10, "vm")) == {"engine-disk": "wrong"}
    assert states(check_image_disk("/var/lib/docker", GIB, "vm")) == {"engine-disk": "warning"}
    assert check_image_disk("/var/lib/docker", None, "vm") == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"torch": "2.4.0+cu121"}, {"versions": "warning"}),
        ({"python": "3.10.1"}, {"versions": "warning"}),
        ({"python": "3.11.9", "torch": "2.3.1+cpu", "nccl": None}, {}),
        ({"torch": None}, {}),
    ],
)
def test_other_versions_in_a_container_are_a_warning(change: dict[str, Any], expected: dict[str, str]) -> None:
    assert states(check_difference(HEALTHY, {**HEALTHY, **change}, "node1")) == expected


def test_an_image_without_torch_or_torchrun_is_found() -> None:
    assert states(check_versions({"python": "3.11"}, "container", image="plain")) == {"torch": "wrong"}
    assert states(check_versions({**HEALTHY, "torchrun": None}, "container", image="x")) == {"torchrun": "wrong"}
    assert states(check_versions({**HEALTHY, "torchrun": None}, "vm")) == {}, "the runner calls torch's module itself"


@pytest.mark.parametrize(
    ("variable", "value", "chosen"),
    [
        (GLOO, "eth0", ["eth0"]),
        (GLOO, "ib0,eth0", ["ib0", "eth0"]),
        (NCCL, "eth", ["eth0", "eth01"]),
        (NCCL, "=eth0", ["eth0"]),
        (NCCL, "^docker,lo", ["eth0", "eth01", "ib0"]),
        (NCCL, "^=eth0", ["eth01", "ib0", "docker0", "lo"]),
    ],
)
def test_variables_choose_interfaces_as_gloo_and_nccl_read_them(variable: str, value: str, chosen: list[str]) -> None:
    assert chosen_by(variable, value, ["eth0", "eth01", "ib0", "docker0", "lo"]) == chosen


def test_the_script_that_looks_around_in_a_container_has_nothing_that_python_3_8_lacks() -> None:
    words = ["check", "--isolated", "--target-version", "py38", "--select", "FA102", inside.__file__]
    done = subprocess.run([Path(sys.executable).with_name("ruff"), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def of_cluster(**changes: Any) -> dict[str, str]:
    node = {"name": "n0", "ready": True, "closed": False, "pressures": [], "gpus": 0, "cpu": "8", "memory": "1Gi"}
    facts: dict[str, Any] = {"stage": "nodes", "host": "https://c", "namespace": "default", "version": "v1.32.0"}
    facts |= {"crd": ["v1"], "missing_kind": "", "lacking": [], "restricted": False}
    facts["nodes"] = [{**node, "images": ["docker.io/library/kit:1"], **changes.pop("node", {})}]
    device = changes.pop("device", "cpu")
    return states(cluster.check({**facts, **changes}, "vm", Options(image="kit:1"), device))


def test_for_a_trainjob_trainer_jobset_and_the_rights_to_both_of_its_objects_are_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def found(**options: str) -> dict[str, str]:
        monkeypatch.setattr(cluster, "Cluster", lambda *_: Answers(**options))
        facts = cluster.gather(Options(job="trainjob"))
        findings = cluster.check(facts, "vm", Options(job="trainjob"), "cpu")
        return {finding.check: finding.seen for finding in findings}

    assert found()["crd"] == "TrainJob v1alpha1"
    assert found()["rights"].startswith("the user may create")
    assert found(lacks="JobSet")["crd"] == "the cluster knows no JobSet"
    assert found(forbids="delete trainingruntimes")["rights"] == "no right in namespace lab to delete trainingruntimes"


def test_what_a_cluster_lacks_is_found() -> None:
    assert of_cluster() == {}
    assert of_cluster(lacking=["create pytorchjobs"]) == {"rights": "wrong"}
    assert of_cluster(missing_kind="the cluster knows no PyTorchJob: use another") == {"crd": "wrong"}
    assert of_cluster(restricted=True) == {"pod-security": "wrong"}
    assert of_cluster(node={"ready": False}) == {"nodes": "wrong"}
    assert of_cluster(node={"pressures": ["DiskPressure"]}) == {"nodes": "warning"}
    assert of_cluster(node={"images": []}) == {"image": "warning"}
    assert of_cluster(device="cuda") == {"gpus": "wrong"}


def test_a_controller_that_does_not_answer_and_nodes_that_take_no_jobs_are_found() -> None:
    def states(**facts: Any) -> list[tuple[str, str, str]]:
        return [(finding.check, finding.state, finding.where) for finding in slurm.check(facts, "login")]

    assert states(missing=["sinfo"]) == states(problem="connect failure") == [("slurm", "wrong", "login")]
    rows = [["cpu", "idle", "2"], ["gpu", "mix", "1"], ["gpu", "drain", "1"], ["old", "down*", "3"]]
    answers = ("slurm", "ok", "login")
    found = states(rows=rows, partition="")
    assert found == [answers, ("nodes", "ok", "cpu"), ("nodes", "warning", "gpu"), ("nodes", "warning", "old")]
    assert states(rows=rows[3:], partition="old") == [answers, found[3], ("nodes", "wrong", "login")]
    assert states(rows=[], partition="nope") == [answers, ("nodes", "wrong", "login")]
