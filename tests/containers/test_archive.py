"""An archive is reproduced on a machine without a network, with only the image and an engine."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.support.containers import Images, docker, forget_runs
from tests.support.projects import Project
from tests.support.smallest import SMALLEST

pytestmark = pytest.mark.engine

SOCKET = "/var/run/docker.sock"


def mounts(shared: Path) -> list[str]:
    """Mount the engine's socket, the docker command, and a folder whose path is the same inside."""
    plugins = json.loads(docker("info", "--format", "{{json .ClientInfo.Plugins}}"))
    (compose,) = (plugin["Path"] for plugin in plugins if plugin["Name"] == "compose")
    places = {
        os.environ.get("DOCKER_HOST", SOCKET).removeprefix("unix://"): SOCKET,
        shutil.which("docker") or "": "/usr/local/bin/docker",
        compose: "/usr/libexec/docker/cli-plugins/docker-compose",
        str(shared): shared,
    }
    return [f"--volume={Path(source).resolve()}:{place}" for source, place in places.items()]


def test_a_reviewer_without_a_network_gets_the_same_numbers_from_an_archive(
    committed: Project, image: Images, tmp_path: Path
) -> None:
    forget_runs(committed)
    words = SMALLEST["quickstart"].words("layout=1x1")
    done = committed.runner("run", "quickstart", *words, *"--repeat 1 --device cpu --on compose".split())
    assert done.code == 0, done.snapshot
    assert committed.runner("bundle", "results", "-o", tmp_path / "kit.tar").code == 0
    without = f"run --rm --network=none --user=0:0 --workdir={tmp_path} --env=TMPDIR={tmp_path}".split()
    shown = docker(*without, *mounts(tmp_path), image.cpu, *"runner reproduce kit.tar --yes --json".split())
    (verdict,) = json.loads(shown)["runs"]
    assert verdict["checks"][0]["same"] is True
    assert verdict["level"] >= 2
