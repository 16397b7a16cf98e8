"""Engines and images that will not do are refused in one line, before anything is started."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.engine import built
from tests.support.launches import until
from tests.support.projects import Ended, Project

pytestmark = pytest.mark.engine


def refused(project: Project, *words: str, **env: str) -> str:
    done: Ended = project.runner("run", "quickstart", "--on", "compose", *words, env=env)
    assert (done.code, done.stdout) == (2, ""), done.stderr
    (line,) = done.stderr.splitlines()
    return line


@pytest.fixture
def bare_engine(tmp_path: Path) -> Iterator[str]:
    """A second, empty engine without anything of NVIDIA's."""
    if os.geteuid() or not shutil.which("dockerd"):
        pytest.skip("only root with dockerd can start a second engine")
    with tempfile.TemporaryDirectory(prefix="kit-engine-", ignore_cleanup_errors=True) as short:
        socket = f"unix://{short}/docker.sock"
        # The path of a socket may have some hundred characters, and a test's folder alone has more.
        places = [f"--data-root={tmp_path / 'data'}", f"--exec-root={short}/exec"]
        # In namespaces of its own: an engine without a bridge takes that of the other one away, and its mounts would
        # outlive it.
        network = ["--bridge=none", "--iptables=false", "--ip6tables=false"]
        with (tmp_path / "log").open("wb") as log:
            engine = subprocess.Popen(
                ["unshare", "--net", "--mount", "dockerd", "-H", socket, f"--pidfile={short}/pid", *places, *network],
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


def test_an_image_for_another_architecture_is_refused(project: Project, tmp_path: Path) -> None:
    text = "FROM scratch\nCOPY Dockerfile /\n"
    with built(text, "architecture", tmp_path, "--platform", "linux/s390x") as name:
        line = refused(project, "--device", "cpu", KIT_IMAGE=name)
    assert line.startswith(f"error: {name} is an image for s390x and this machine is ")


def test_a_named_image_that_holds_other_programs_is_refused(project: Project, tmp_path: Path) -> None:
    text = "FROM scratch\nCOPY Dockerfile /workspace/experiments/mnist/ddp.py\n"
    with built(text, "programs", tmp_path) as name:
        line = refused(project, "--device", "cpu", KIT_IMAGE=name)
    assert line.startswith(f"error: the image {name} holds other programs than this checkout")
