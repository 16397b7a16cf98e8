"""Containers that end badly leave a record that says so, within their time, and nothing behind."""

from __future__ import annotations

import os
import re
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.containers.conftest import docker
from tests.containers.engine import LABEL, left_behind, run
from tests.support.launches import interrupted, starting, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.projects import Project

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("image")]


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert left_behind() == []


@pytest.fixture
def started(project: Project) -> Iterator[Callable[..., Any]]:
    """Start a run and return its process and its folder, once there is one."""
    with starting(project, "--on", "compose") as start:
        yield start


def containers(folder: Any) -> list[str]:
    """The names of a run's containers, those of Compose's own."""
    words = ["ps", "--all", "--format", "{{.Names}}", "--filter", f"label={LABEL}=kit-{folder.name.lower()}"]
    return sorted(docker(*words).split())


def raw(folder: Any, ranks: int) -> list[Any]:
    """What the ranks have printed so far; empty until all have begun."""
    found = list(folder.glob("raw/node*/*/attempt_0/*/stdout.log"))
    return found if len(found) == ranks else []


@pytest.mark.parametrize("layout", ["1x2", "1+2"])
def test_a_rank_that_exits_is_named_with_its_code(project: Project, layout: str) -> None:
    done, record = run(project, "odd-exits", "--layout", layout, "--set", "code=3", "--device", "cpu")
    assert done.code == 1
    node = 0 if layout == "1x2" else 1
    assert record["status"] == "failed"
    assert record["reason"] == f"rank 1 (node {node}) exited with 3"
    assert f"rank 1 (node {node}) exited with 3" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_container_that_runs_out_of_memory_says_so(project: Project) -> None:
    done, record = run(project, "odd-memory", "--layout", "1x2", "--with", "memory=1500mb", "--device", "cpu")
    assert done.code == 1
    assert record["status"] == "failed"
    assert record["outcome"]["exits"][0]["out_of_memory"] is True
    assert "SIGKILL: the container ran out of memory" in record["reason"]
    assert "ran out of memory" in done.stderr


def test_a_node_that_never_joins_is_ended_with_the_time(project: Project, started: Callable[..., Any]) -> None:
    text = (project.root / "experiments" / "odd-slow.yaml").read_text()
    path = project.root / "experiments" / "odd-late.yaml"
    path.write_text(text.replace("odd-slow", "odd-late").replace("timeout_seconds: 120", "timeout_seconds: 25"))
    process, folder = started("odd-late", "--layout", "1+2")
    path.unlink()
    names = until(lambda: len(containers(folder)) == 2 and containers(folder))
    docker("pause", names[1])
    began = time.monotonic()
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 1
    assert time.monotonic() - began < 60
    record = project.record(folder)
    assert (record["status"], record["reason"]) == ("timed_out", "not done after timeout_seconds: 25")
    assert "time is up" in stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_collected(project: Project, started: Callable[..., Any], number: signal.Signals) -> None:
    process, folder = started("odd-slow", "--layout", "1+2", "--set", "seconds=100")
    until(lambda: [b'"epoch_stop"' in path.read_bytes() for path in raw(folder, 3)] == [True] * 3, 90)
    record = interrupted(project, process, folder, number)
    assert record["epochs"]
    assert (folder / "raw" / "node1-rank2.stdout").stat().st_size > 0


def test_ctrl_c_while_the_containers_are_made_leaves_none(project: Project, started: Callable[..., Any]) -> None:
    process, folder = started("odd-slow", "--layout", "1+2", "--set", "seconds=100")
    time.sleep(0.4)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=90)
    assert process.returncode == 130
    assert project.record(folder)["status"] == "interrupted"


def test_a_runner_that_is_killed_leaves_no_container(project: Project, started: Callable[..., Any]) -> None:
    process, folder = started("odd-slow", "--layout", "1x2", "--set", "seconds=100")
    until(lambda: raw(folder, 2), 60)
    process.kill()
    process.communicate()
    until(lambda: left_behind() == [], 60)
    project.runner("summarize")
    assert project.runner("collect", folder).stdout.endswith(
        "the runner did not record how the run ended: it was killed, or it could not write\n"
    )


def test_a_container_that_somebody_removes_ends_the_run(project: Project, started: Callable[..., Any]) -> None:
    process, folder = started("odd-slow", "--layout", "1+2", "--set", "seconds=100")
    until(lambda: raw(folder, 3), 60)
    docker("rm", "--force", containers(folder)[1])
    process.communicate(timeout=120)
    assert process.returncode == 1
    record = project.record(folder)
    assert record["status"] in ("failed", "killed")
    assert re.match(r"node 1 (left no exit code: killed, removed|was killed by SIGKILL)", record["reason"])
