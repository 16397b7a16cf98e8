"""A run on one host whose processes are in a container of the Docker Engine.

The engine is this machine's, which all hosts of `.ci/hosts` share: its containers have this machine's network, where
two hosts would not find each other, and see the folders of a host where this machine has them.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import ssh_hosts
from tests.support.containers import base_image, docker, inspected
from tests.support.launches import ended, run_once, starting, until
from tests.support.projects import Project

pytestmark = [pytest.mark.hosts, pytest.mark.engine, pytest.mark.xdist_group("ssh hosts with containers")]
IMAGE = base_image()
SMALL = ("mnist-cpu", "--set", "epochs=1", "--set", "dataset=digits", "--set", "peak_milliseconds=0")


@pytest.fixture
def words() -> Iterator[tuple[str, ...]]:
    """What names the host and the image."""
    folder = ssh_hosts.state("h0") / "docker"
    host = ("--on", "ssh", "--with", "hosts=h0", "--with", f"config={ssh_hosts.CONFIG}", "--with", f"folder={folder}")
    yield *host, "--with", f"container={IMAGE}"
    subprocess.run(["rm", "-rf", str(folder)], check=True)


def left_of(run: Path) -> list[Any]:
    return [*docker("ps", "--all", "--quiet", f"--filter=name={run.name}").split(), *ssh_hosts.processes_of(run.name)]


def test_a_host_trains_in_an_image_of_its_engine(on_hosts: Project, words: tuple[str, ...]) -> None:
    done, record = run_once(on_hosts, *SMALL, "--layout", "1x1", "--device", "cpu", *words)
    assert done.code == 0, done.snapshot
    own = inspected(IMAGE, "{{json .Id}}")
    assert record["launch"]["image"] == {"name": IMAGE, "id": own, "runtime": "docker"}
    (place,) = [node["place"] for node in record["outcome"]["exits"]]
    version = docker("version", "--format={{.Server.Version}}").strip()
    assert (place["host"], place["image"], place["container"]) == ("h0", own, f"docker {version}")
    assert record["ranks"][0]["facts"]["torch"].partition("+")[0] == place["torch"].partition("+")[0]
    assert left_of(on_hosts.results / record["launch"]["id"]) == []


def test_nothing_is_left_in_the_engine_also_if_its_client_and_the_supervisor_were_killed(
    on_hosts: Project, words: tuple[str, ...]
) -> None:
    with starting(on_hosts, *words) as start:
        process, run = start("odd-slow", "--layout", "1x2", "--set", "seconds=200")
        until(ssh_hosts.has_printed(run, epochs=0), 60)
        assert len(left_of(run)) > 1
        process.terminate()
        code, stderr = ended(process)
        assert code == 130, stderr
        assert left_of(run) == []

        process, run = start("odd-slow", "--layout", "1x2", "--set", "seconds=200")
        until(ssh_hosts.has_printed(run, epochs=0), 60)
        ssh_hosts.end_supervisor(run.name, engine="docker")
        code, stderr = ended(process)
        assert code == 1, stderr
        assert "host h0: its supervisor was killed" in on_hosts.record(run)["reason"]
        until(lambda: left_of(run) == [], 10, every=0.5)


def test_an_engine_that_does_not_run_is_one_line_with_the_hosts_name(on_hosts: Project, words: tuple[str, ...]) -> None:
    line = 'DOCKER_HOST=unix:///no/such/socket exec /usr/bin/env python3 "$@"'
    own = ssh_hosts.with_python("h0", line, file="python without docker")
    done = on_hosts.runner("run", "odd-slow", "--layout", "1x1", *words, *own, "--device", "cpu")
    assert (done.code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: host h0: Cannot connect to the Docker daemon at unix:///no/such/socket")
    assert line.endswith("start it there")
