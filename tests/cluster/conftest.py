"""The containers' project on a cluster: its images are built once and brought there by the command in KIT_LOAD."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.containers.conftest import PROGRAM, Images, docker, image, project  # noqa: F401 - fixtures
from tests.support.launches import starting
from tests.support.projects import Ended, Project

Run = Callable[..., tuple[Ended, dict[str, Any]]]
Start = Callable[..., tuple[subprocess.Popen[str], Path]]
LEAVES = """
            if run.rank == 0:
                run.log.point("tracked_stats", {"train_seconds": args.seconds})
                os._exit(0)
            time.sleep(600)
"""
SAYS = """
            print("x" * 60)
            end = time.monotonic() + args.seconds
            number = 0
            while time.monotonic() < end:
                number += 1
                run.log.point("number", number)
                time.sleep(0.005)
"""


ECHOES = """
            os.write(1, f"text: {args.text}\\n".encode())
"""
SECONDS = {"option": "seconds", "kind": "float", "default": "1.0"}
TEXT = {"option": "text", "kind": "str", "default": "''"}


@pytest.fixture(scope="session", autouse=True)
def more_programs(project: Project) -> None:  # noqa: F811 - the fixture
    """Programs that only a cluster's tests need; they are there before the image is built."""
    for name, body, option in (("leaves", LEAVES, SECONDS), ("says", SAYS, SECONDS), ("echoes", ECHOES, TEXT)):
        words = {"summary": name, **option, "name": name}
        project.program(f"odd.{name}", PROGRAM.format(**words, body=body.strip("\n")))
        project.define(
            name=f"odd-{name}",
            program=f"odd.{name}",
            matrix={"layout": ["2x1"]},
            baseline={"layout": "2x1"},
            timeout_seconds=45 if name == "leaves" else 120,
        )


@pytest.fixture(scope="session")
def loaded(image: Images) -> Images:  # noqa: F811 - the fixture
    """Bring both images to the cluster."""
    words = [*shlex.split(os.environ["KIT_LOAD"]), image.cpu, image.gpu]
    done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return image


def kubectl(*words: str, cwd: Path | None = None, check: bool = True) -> str:
    done = subprocess.run(["kubectl", *words], cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 or not check, f"kubectl {shlex.join(words)}: {done.stderr}"
    return done.stdout + ("" if check else done.stderr)


def get(*words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(kubectl("get", *words, "-o", "json"))["items"]
    return found


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own, which is empty when the test ends."""
    name = f"kit-{abs(hash(request.node.nodeid)) % 16**8:08x}"
    kubectl("create", "namespace", name)
    yield name
    end = time.monotonic() + 60
    while (left := things(name)) and time.monotonic() < end:
        time.sleep(1)
    kubectl("delete", "namespace", name, "--wait=false")
    assert left == []


def things(namespace: str) -> list[str]:
    """What there is in a namespace of the kinds that a run makes."""
    words = kubectl("get", "pytorchjobs,jobs,pods,services", "-n", namespace, "-o", "name", check=False)
    return [word for word in words.split() if "/" in word]


@pytest.fixture
def run(project: Project, namespace: str, loaded: Images) -> Run:  # noqa: ARG001, F811
    """Run one cell on the cluster, as a person does; what was said, and the record."""

    def run(experiment: str, *words: str, device: str = "cpu", **more: Any) -> tuple[Ended, dict[str, Any]]:
        before = set(project.results.glob("*/*/run.json"))
        words = (*words, "--on", "kubernetes", "--with", f"namespace={namespace}", "--repeat", "1", "--device", device)
        done = project.runner("run", experiment, *words, within=240, **more)
        new = set(project.results.glob("*/*/run.json")) - before
        assert len(new) == 1, done.snapshot
        assert "Traceback" not in done.stderr, done.snapshot
        return done, project.record(new.pop().parent)

    return run


@pytest.fixture
def started(project: Project, namespace: str, loaded: Images) -> Iterator[Start]:  # noqa: ARG001, F811
    """Start a run and return its process and its folder, once there is one."""
    with starting(project, "--on", "kubernetes", "--with", f"namespace={namespace}") as start:
        yield start
