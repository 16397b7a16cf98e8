"""The logs of a compose project that knows nothing of the kit."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.containers import Images, docker, name_of_its_own
from tests.support.launches import until
from tests.support.projects import ROOT, Project

pytestmark = pytest.mark.engine

TRAIN = r"""
printf 'Using distributed PyTorch with gloo backend\n'
for epoch in 1 2; do
  printf "Train Epoch: $epoch [640/1280 (50%%)]\tloss=0.5\n"
  printf "Train Epoch: $epoch [1216/1280 (95%%)]\tloss=0.25\n"
done
printf '\naccuracy=0.9871\n\n'
"""
Up = "Callable[..., str]"


@pytest.fixture
def up(tmp_path: Path, image: Images) -> Iterator[Callable[..., str]]:
    """Start a project of two services with these scripts; its name."""
    name = name_of_its_own("foreign")
    words = ["docker", "compose", "-p", name, "-f", str(tmp_path / "compose.yaml")]

    def up(*scripts: str, detached: bool = False) -> str:
        services = {
            f"trainer{number}": {"image": image.cpu, "command": ["sh", "-c", script.replace("$", "$$")]}
            for number, script in enumerate(scripts)
        }
        (tmp_path / "compose.yaml").write_text(yaml.safe_dump({"services": services}))
        subprocess.run([*words, "up", *["-d"] * detached], check=True, capture_output=True)
        return name

    yield up
    subprocess.run([*words, "down", "--timeout", "1"], check=True, capture_output=True)


def collected(project: Project, name: str) -> dict[str, Any]:
    done = project.runner("collect", f"compose:{name}", "--json")
    assert done.code == 0, done.snapshot
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_stopped_project_is_read_as_one_log(project: Project, up: Callable[..., str]) -> None:
    name = up(TRAIN, "echo hello; sleep 0.3; echo world_size:2,rank:0")
    log = collected(project, name)
    assert (log["status"], log["world_size"], log["backend"]) == ("completed", 2, "gloo")
    assert (log["epochs_seen"], log["last_train_loss"]["value"], log["final_eval"]["value"]) == ([1, 2], 0.25, 0.9871)
    assert log["exit_codes"] == {"trainer0-1": 0, "trainer1-1": 0}
    assert log["origins"]["prefixes"]["compose"] > 3
    logs = docker("compose", "-p", name, "logs", "--no-color")
    assert log["line_count"] == len(logs.splitlines())


def test_a_project_that_failed_says_which_container_did(project: Project, up: Callable[..., str]) -> None:
    name = up(TRAIN, "echo world_size:2,rank:1; exit 3")
    log = collected(project, name)
    assert log["status"] == "failed"
    assert "exited: trainer1-1 with 3" in log["notes"]
    shown = project.runner("collect", f"compose:{name}").stdout
    assert "exited: trainer1-1 with 3" in shown


def test_a_running_project_is_read_as_far_as_it_is(project: Project, up: Callable[..., str]) -> None:
    name = up(TRAIN + "sleep 100", "sleep 100", detached=True)
    until(lambda: "accuracy" in docker("compose", "-p", name, "logs"), 20)
    log = collected(project, name)
    assert log["final_eval"]["value"] == 0.9871
    assert "still running, read as far as it is now: trainer0-1, trainer1-1" in log["notes"]


def test_a_project_that_is_not_there_is_one_line_with_the_names_of_others(project: Project) -> None:
    done = project.runner("collect", "compose:kit-foreign-none")
    assert done.code == 2
    assert done.stderr.startswith("error: compose:kit-foreign-none: no container of such a project")
    assert done.stderr.count("\n") == 1
    assert ROOT.exists()
