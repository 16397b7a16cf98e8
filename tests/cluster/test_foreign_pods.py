"""The logs of pods that know nothing of the kit, by their labels."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.cluster import kubectl, pods
from tests.support.containers import Images
from tests.support.launches import until
from tests.support.projects import Project

pytestmark = pytest.mark.cluster

TRAIN = r"""
printf 'Using distributed PyTorch with gloo backend\nworld_size:2,rank:0\n'
printf "Train Epoch: 1 [640/1280 (50%%)]\tloss=0.5\nTrain Epoch: 1 [1216/1280 (95%%)]\tloss=0.25\n"
printf '\naccuracy=0.9871\n\n'
"""


def pod(name: str, image: str, script: str) -> dict[str, Any]:
    container = {"name": "train", "image": image, "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", script]}
    container["resources"] = {"requests": {"cpu": "100m"}}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    labels = {"job-of": "somebody", "part": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def test_finished_and_running_pods_are_read_as_one_log(project: Project, namespace: str, loaded: Images) -> None:
    made = [
        pod("one", loaded.cpu, TRAIN),
        pod("two", loaded.cpu, "echo world_size:2,rank:1; exit 4"),
        pod("three", loaded.cpu, "echo hello; sleep 100"),
    ]
    kubectl(
        "create",
        "-n",
        namespace,
        "-f",
        "-",
        stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": made}).encode(),
    )
    until(lambda: sorted(one["status"]["phase"] for one in pods(namespace)) == ["Failed", "Running", "Succeeded"], 60)
    on = ("--with", f"namespace={namespace}", "--json")

    whole = json.loads(project.runner("collect", "pods:job-of=somebody,part=one", *on).stdout)
    assert (whole["status"], whole["world_size"], whole["backend"]) == ("completed", 2, "gloo")
    assert (whole["last_train_loss"]["value"], whole["final_eval"]["value"]) == (0.25, 0.9871)
    assert whole["exit_codes"] == {"[pod/one/train]": 0}
    assert whole["origins"]["prefixes"]["kubectl"] > 3

    every = json.loads(project.runner("collect", "pods:job-of=somebody", *on).stdout)
    assert every["status"] == "failed"
    assert every["exit_codes"] == {"[pod/one/train]": 0, "[pod/three/train]": None, "[pod/two/train]": 4}
    assert "exited: [pod/two/train] with 4" in every["notes"]
    assert "still running, read as far as it is now: [pod/three/train]" in every["notes"]

    for words, said in [
        (("pods:job-of=nobody", *on), "no such pod has started in namespace"),
        (("pods:a=b=c", *on), "error: pods:a=b=c: "),
    ]:
        none = project.runner("collect", *words)
        assert (none.code, none.stderr.count("\n")) == (2, 1)
        assert said in none.stderr
    kubectl("delete", "pods", "--all", "-n", namespace)
