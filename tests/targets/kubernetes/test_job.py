"""Manifests: valid by the operators' schemas, and the same nodes as on every other target."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import structs

from runner.core.errors import RequestError
from runner.definitions import experiment as definition
from runner.definitions.plan import Run
from runner.targets.compose.target import Compose
from runner.targets.kubernetes.job import KINDS, RUN, PodOptions, name_of, pytorchjob
from runner.targets.local import Local
from tests.support.manifests import READERS, decoded, local_nodes, pods, run, runs, validate

ROOT = Path(__file__).parents[3]
DEFINITIONS = [path.stem for path in definition.files(ROOT)]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_target_starts_the_same_program_args_environment_ranks_and_world_size(name: str, device: str) -> None:
    for planned in runs(name, device):
        here = local_nodes(planned)
        services = Compose().spec(planned).services.values()
        assert [
            decoded(service["command"], {**node.env, **service["environment"]})
            for service, node in zip(services, Local().spec(planned).nodes, strict=True)
        ] == here
        for kind, render in KINDS.items():
            documents = render(planned, "job", PodOptions())
            for document in documents:
                validate(document)
            assert READERS[kind](documents) == here


@settings(max_examples=30)
@given(st.lists(st.integers(1, 8), min_size=1, max_size=6))
def test_any_layout_and_text_reach_the_nodes_but_three_shapes_of_node_no_pytorchjob(processes: list[int]) -> None:
    strange = "$(OMP_NUM_THREADS) $$(HOME) $x ${y} ${local_rank} $(PET_NNODES"
    planned = run("+".join(map(str, processes)) if len(processes) > 1 else f"1x{processes[0]}", "cpu", "toy")
    planned = replace(planned, cell=replace(planned.cell, args={**planned.cell.args, "note": strange}))
    for kind, render in KINDS.items():
        if kind == "pytorchjob" and len(set(processes[1:])) > 1:
            with pytest.raises(RequestError, match="job=indexed"):
                render(planned, "job", PodOptions())
            continue
        documents = render(planned, "job", PodOptions())
        nodes = READERS[kind](documents)
        assert nodes == local_nodes(planned)
        assert strange in nodes[0].words
        assert json.loads(documents[-1]["metadata"]["annotations"][RUN])["args"]["note"] == strange


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["mnist", "bert", "toy"])
def test_every_container_keeps_to_the_restricted_standard(kind: str, name: str) -> None:
    for pod in pods(KINDS[kind](run(name=name), "job", PodOptions())):
        assert pod["automountServiceAccountToken"] is False
        own = pod["securityContext"]
        assert (own["runAsNonRoot"], own["seccompProfile"]) == (True, {"type": "RuntimeDefault"})
        assert not {"hostNetwork", "hostPID", "hostIPC", "serviceAccountName"} & set(pod)
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
            }
            environment = {variable["name"]: variable.get("value") for variable in container["env"]}
            mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
            assert environment["HOME"] in mounted  # the user has no entry in the passwd of an image of somebody else
            assert environment["USER"]
        assert pod["volumes"][0]["emptyDir"]["medium"] == "Memory"
        assert all(set(volume) <= {"name", "emptyDir", "persistentVolumeClaim"} for volume in pod["volumes"])


def test_data_come_by_an_init_step_or_by_a_claim_and_without_data_by_neither() -> None:
    def first(planned: Run, claim: str = "") -> dict[str, Any]:
        return pods(pytorchjob(planned, "job", PodOptions(data_claim=claim)))[0]

    planned = replace(run(), experiment=structs.replace(run().experiment, data="sets"))
    prepared, claimed, none = first(planned), first(planned, "sets"), first(run("2x1", "cpu", "quickstart"))
    assert prepared["initContainers"][0]["command"] == ["sh", "-c", "runner prepare sets || true"]
    assert "initContainers" not in {**claimed, **none}
    claim = {"claimName": "sets", "readOnly": True}
    assert {"name": "data", "persistentVolumeClaim": claim} in claimed["volumes"]
    assert "data" not in [volume["name"] for volume in none["volumes"]]


def test_sizes_are_asked_for_as_they_are_given() -> None:
    options = PodOptions(image="here/kit:1", cpu="500m", memory="3Gi", shm_size="2Gi", deadline_seconds=90)
    (job,) = pytorchjob(run("2+3"), "job", options)
    validate(job)
    policy = job["spec"]["runPolicy"]
    assert (policy["activeDeadlineSeconds"], policy["cleanPodPolicy"]) == (90, "Running")  # a runner follows every log
    for pod, gpus in zip(pods([job]), "23", strict=True):
        container = pod["containers"][0]
        amounts = {"cpu": "500m", "memory": "3Gi", "nvidia.com/gpu": gpus}
        assert container["resources"] == {"requests": amounts, "limits": amounts}
        assert container["image"] == "here/kit:1"
        assert pod["volumes"][0]["emptyDir"]["sizeLimit"] == "2Gi"


@given(st.text(min_size=1), st.from_regex(r"[1-9]x[1-9]|[1-9]\+[1-9]|65536x1", fullmatch=True))
@example("x" * 80, "65536x1")
def test_a_job_s_name_is_a_dns_label_with_room_for_those_of_its_pods(experiment: str, layout: str) -> None:
    run_id = "20261121T000000Z-kubernetes-0123abcd"
    name = name_of(experiment, layout, run_id)
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name)
    assert len(f"{name}-node-0-65535-abcde") <= 63
    assert name.endswith("-0123abcd")
