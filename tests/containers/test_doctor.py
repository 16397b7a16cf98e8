"""`runner doctor --on compose` examines a container of the image that a run would use."""

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
    """Return the command's end and its findings that are not ok; retry if a crowded machine gave no answer in time."""
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
def slow_image(tmp_path: Path) -> Iterator[str]:
    """Build an image in which Python never answers."""
    text = f"FROM {base_image()}\nRUN printf '#!/bin/sh\\nexec sleep 300\\n' > /usr/local/bin/python3 && "
    text += "chmod +x /usr/local/bin/python3\nENV PATH=/usr/local/bin:$PATH\n"
    with built(text, "slow", tmp_path) as name:
        yield name
        until(lambda: containers() == [], 10)  # or the engine does not remove the image


def test_a_healthy_engine_has_no_finding(project: Project) -> None:
    done, found = examined(project, "--with", f"image={base_image()}")
    assert (done.code, found) == (0, []), done.stdout
    seen = {(finding["check"], finding["where"]): finding["seen"] for finding in json.loads(done.stdout)["findings"]}
    place = f"container of {base_image()}"
    assert seen["shared-memory", place] == "1.0 GiB free in /dev/shm"
    assert "eth0" in seen["interface", place]
    assert seen["torch", place].startswith("torch 2.")


@pytest.mark.parametrize(
    ("options", "check", "mend"),
    [
        ([f"image={base_image()}", "--with", "shm_size=64mb"], "shared-memory", "--with shm_size=1gb"),
        (["image=kit-test-nowhere:1"], "image", "docker pull kit-test-nowhere:1"),
    ],
)
def test_a_small_shm_or_a_missing_image_is_wrong(project: Project, options: list[str], check: str, mend: str) -> None:
    done, (found,) = examined(project, "--with", *options)
    assert (done.code, found["check"], found["mend"]) == (1, check, mend)


@pytest.mark.alone  # the answer takes most of the 15 seconds that are promised
def test_an_image_in_which_nothing_answers_is_reported_in_time(project: Project, slow_image: str) -> None:
    done, (found,) = examined(project, "--with", f"image={slow_image}")
    assert (done.code, found["check"]) == (1, "container")
    assert "does not answer" in found["seen"]


def test_an_interrupt_leaves_no_container(project: Project, slow_image: str) -> None:
    process = project.start("doctor", "--on", "compose", "--device", "cpu", "--with", f"image={slow_image}")
    until(lambda: containers() != [])
    process.send_signal(signal.SIGINT)
    code, stderr = ended(process)
    assert (code, stderr) == (130, "interrupted\n")
    until(lambda: containers() == [], 10)  # the engine may still be about it
