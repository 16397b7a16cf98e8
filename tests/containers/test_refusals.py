"""Engines and images that cannot work are refused in one line, before anything starts."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.engine import built
from tests.support.launches import until
from tests.support.projects import Project

pytestmark = pytest.mark.engine


def refused(project: Project, *words: str, **env: str) -> str:
    return project.refused("run", "quickstart", "--on", "compose", *words, env=env)


@pytest.fixture
def bare_engine(tmp_path: Path) -> Iterator[str]:
    """Start a second engine without NVIDIA's container toolkit."""
    if os.geteuid() or not shutil.which("dockerd"):
        pytest.skip("only root with dockerd can start a second engine")
    with tempfile.TemporaryDirectory(prefix="kit-engine-", ignore_cleanup_errors=True) as short:
        socket = f"unix://{short}/docker.sock"
        # A socket's path may have about a hundred characters, fewer than a test's folder.
        places = f"--data-root={tmp_path}/data --exec-root={short}/exec --pidfile={short}/pid"
        # In separate namespaces: an engine without a bridge removes the other engine's, and leaves its mounts.
        network = "--bridge=none --iptables=false --ip6tables=false"
        with (tmp_path / "log").open("wb") as log:
            engine = subprocess.Popen(
                f"unshare --net --mount dockerd -H {socket} {places} {network}".split(),
                stdout=log,
                stderr=log,
                env={**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            )
        try:
            asked = ["docker", "-H", socket, "info"]
            until(lambda: subprocess.run(asked, capture_output=True, check=False).returncode == 0 or engine.poll(), 60)
            assert engine.poll() is None, (tmp_path / "log").read_text()
            yield socket
        finally:
            engine.terminate()
            engine.wait()


def test_gpus_on_an_engine_without_a_driver_are_refused(project: Project, bare_engine: str) -> None:
    line = refused(project, "--device", "cuda", DOCKER_HOST=bare_engine)
    assert "no driver for NVIDIA GPUs" in line
    left = subprocess.run(["docker", "-H", bare_engine, "images", "-q"], capture_output=True, check=True)
    assert left.stdout == b""


@pytest.mark.parametrize(
    ("place", "platform", "why"),
    [
        ("/", ["--platform", "linux/s390x"], "s390x"),
        ("/workspace/experiments/mnist/ddp.py", [], "other programs"),
    ],
)
def test_an_image_for_another_architecture_or_with_other_programs_is_refused(
    project: Project, tmp_path: Path, place: str, platform: list[str], why: str
) -> None:
    with built(f"FROM scratch\nCOPY Dockerfile {place}\n", "refused", tmp_path, *platform) as name:
        line = refused(project, "--device", "cpu", KIT_IMAGE=name)
    assert line.startswith(f"error: the image {name} ")
    assert why in line
