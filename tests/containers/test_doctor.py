"""`runner doctor --on compose` sees what a node of a run would see, in a container of the image that it would use."""

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.containers.engine import built
from tests.support.containers import base_image, docker
from tests.support.launches import ended, until
from tests.support.patience import crowding, within
from tests.support.projects import Ended, Project

# Each looks for the containers of all doctors.
_CROWDED = 2.0
pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("doctor")]


@pytest.fixture
def project(copied: Project) -> Project:
    return replace(copied, forked=False)


def examined(project: Project, *words: str) -> tuple[Ended, list[dict[str, Any]]]:
    """Examine the engine; the command's end, and what is not right. It leaves no container.

    On a crowded machine it may say in time that the engine has not answered: it is asked again.
    """
    while True:
        with within(15):
            done = project.runner("doctor", "--on", "compose", "--device", "cpu", "--json", *words)
        until(lambda: containers() == [], 10)  # the engine may still be about it
        if "no answer within" not in done.stdout or crowding() < _CROWDED:
            break
    assert done.stdout, done.stderr
    return done, [finding for finding in json.loads(done.stdout)["findings"] if finding["state"] != "ok"]


def containers() -> list[str]:
    return docker("ps", "--all", "--format", "{{.Names}}", "--filter", "name=kit-doctor-").split()


@pytest.fixture
def other_image(tmp_path: Path) -> Iterator[str]:
    """An image whose torch says that it is another version."""
    text = f"FROM {base_image()}\nRUN file=$(python3 -c 'import importlib.util as u; "
    text += 'print(u.find_spec("torch").submodule_search_locations[0])\')/version.py && '
    text += "sed -i \"s/^__version__.*/__version__ = '2.4.0'/\" $file\n"
    with built(text, "other", tmp_path) as name:
        yield name


@pytest.fixture
def slow_image(tmp_path: Path) -> Iterator[str]:
    """An image in which Python takes longer than anybody waits."""
    text = f"FROM {base_image()}\nRUN printf '#!/bin/sh\\nexec sleep 300\\n' > /usr/local/bin/python3 && "
    text += "chmod +x /usr/local/bin/python3\nENV PATH=/usr/local/bin:$PATH\n"
    with built(text, "slow", tmp_path) as name:
        yield name
        until(lambda: containers() == [], 10)  # the engine removes no image that a container has


def test_a_healthy_engine_has_no_finding(project: Project) -> None:
    done, found = examined(project, "--with", f"image={base_image()}")
    assert (done.code, found) == (0, []), done.stdout
    seen = {(finding["check"], finding["where"]): finding["seen"] for finding in json.loads(done.stdout)["findings"]}
    place = f"container of {base_image()}"
    assert seen["shared-memory", place] == "1.0 GiB free in /dev/shm"
    assert "eth0" in seen["interface", place]
    assert seen["torch", place].startswith("torch 2.")


def test_a_small_shm_of_the_containers_is_wrong(project: Project) -> None:
    done, (found,) = examined(project, "--with", f"image={base_image()}", "--with", "shm_size=64mb")
    assert done.code == 1
    assert (found["check"], found["where"]) == ("shared-memory", f"container of {base_image()}")
    assert (found["seen"], found["mend"]) == ("only 64 MiB free in /dev/shm", "--with shm_size=1gb")


def test_another_torch_in_the_image_than_on_this_machine_is_a_warning(project: Project, other_image: str) -> None:
    done, (found,) = examined(project, "--with", f"image={other_image}")
    assert done.code == 0
    assert (found["check"], found["where"]) == ("versions", f"container of {other_image}")
    assert "torch 2.4.0 there, torch 2." in found["seen"]


def test_an_image_that_is_not_there_is_wrong(project: Project) -> None:
    done, (found,) = examined(project, "--with", "image=kit-test-nowhere:1")
    assert (done.code, found["check"], found["mend"]) == (1, "image", "docker pull kit-test-nowhere:1")


@pytest.mark.alone  # the answer takes most of the 15 seconds that are promised
def test_an_image_in_which_nothing_answers_is_reported_in_time(project: Project, slow_image: str) -> None:
    done, (found,) = examined(project, "--with", f"image={slow_image}")
    assert (done.code, found["check"]) == (1, "container")
    assert "gives no answer" in found["seen"]


def test_an_interrupt_leaves_no_container(project: Project, slow_image: str) -> None:
    process = project.start("doctor", "--on", "compose", "--device", "cpu", "--with", f"image={slow_image}")
    until(lambda: containers() != [])
    process.send_signal(signal.SIGINT)
    code, stderr = ended(process)
    assert (code, stderr) == (130, "interrupted\n")
    until(lambda: containers() == [], 10)  # the engine may still be about it
