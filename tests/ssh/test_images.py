"""Images of containers on hosts, before any host is asked: names, the engine's command, and a container's guard."""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from runner.core.errors import RequestError
from runner.targets.ssh import images
from runner.targets.ssh.host_container import GUARD, command
from runner.targets.ssh.verdicts import Engine, Wanted
from tests.support.projects import Project

HOSTILE = ["--privileged", "-v/:/host", "a b", "a\nb", "a;reboot", "$(reboot)", "a'b", "../a", "/etc", "a\x1b[31m", "ä"]
HOSTILE += ["a,b", "a" * 500]
IMAGE = "sha256:" + "0" * 64


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_an_engine_takes_for_more_is_refused(name: str) -> None:
    with pytest.raises(RequestError, match="it is no name of an image") as error:
        images.require_name(name)
    assert str(error.value).isprintable()


@pytest.mark.parametrize(
    "name",
    ["kit:cpu", "registry.example:5000/team/train:1.2", "pytorch/pytorch@sha256:" + "a" * 64, IMAGE, "localhost/x"],
)
def test_a_name_that_engines_know_is_taken(name: str) -> None:
    images.require_name(name)


def test_a_dry_run_shows_the_image_and_asks_no_engine(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///no such engine")
    done = project.runner(
        "run", "tiny", "--on", "ssh", "--with", "hosts=h0,h1", "--with", "container=team/x:1", "--dry-run"
    )
    assert done.code == 0, done.snapshot
    assert '"container": "team/x:1"' in done.stdout


def words_of(
    kind: str, place: str = "/run", source: str = "/run", *, rootless: bool = False, gpus: bool = False
) -> Any:
    container = Engine("docker", kind, "1", rootless, IMAGE).request(gpus=gpus) | {"env": {"A": "secret"}}
    return command(container, "kit-x", {place: source}, "/run", ["python3", "-c", "x; y"])


def test_the_values_of_variables_are_not_in_the_command_of_an_engine() -> None:
    for kind in ("docker", "podman"):
        words = words_of(kind)
        assert "--env=A" in words
        assert "secret" not in " ".join(words)
        assert words[-4:] == [IMAGE, "python3", "-c", "x; y"]


def test_a_container_writes_files_of_the_user_who_started_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 4711)
    monkeypatch.setattr(os, "getgid", lambda: 4712)
    monkeypatch.setattr(os, "getgroups", lambda: [44])
    docker = words_of("docker")
    assert {"--user=4711:4712", "--group-add=44", "--env=HOME=/tmp", "--env=USER=4711"} < set(docker)
    assert "--user=0:0" in words_of("docker", rootless=True)
    assert {"--user=4711:4712", "--userns=keep-id"} < set(words_of("podman", rootless=True))


def test_gpus_are_given_in_the_words_of_each_engine() -> None:
    assert "--gpus=all" in words_of("docker", gpus=True)
    assert "--device=nvidia.com/gpu=all" in words_of("podman", gpus=True)
    assert not [word for word in words_of("docker") if "gpu" in word]


def test_a_folder_that_would_be_read_as_more_options_of_a_mount_is_refused() -> None:
    assert "--mount=type=bind,source=/a b'$(x),target=/data" in words_of("docker", "/data", "/a b'$(x)")
    for path in ("/a,readonly", '/a"b', "/a\nb"):
        with pytest.raises(OSError, match="a comma or a quote"):
            words_of("docker", path)


def test_an_image_is_not_here_if_there_is_no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    wanted = Wanted("docker", "team/x:1")
    assert images.find_here(wanted) == wanted


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[BinaryIO]:
    """A file whose lock is held, as a supervisor holds it."""
    with (tmp_path / "alive").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield held


def guarded(lock: BinaryIO, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-c", GUARD, lock.name, "1", sys.executable, "-c", *words], stdout=subprocess.PIPE
    )


def test_what_runs_below_the_guard_ends_as_it_would_alone(lock: BinaryIO) -> None:
    for code, ends_with in (("raise SystemExit(7)", 7), ("import os; os.abort()", 128 + 6)):
        with guarded(lock, code) as process:
            assert process.wait() == ends_with
    with guarded(lock, "import time; print('here', flush=True); time.sleep(600)") as told:
        assert told.stdout is not None
        assert told.stdout.readline() == b"here\n"
        told.terminate()
        assert told.wait() == 128 + 15


def test_the_guard_ends_what_runs_without_a_supervisor_also_what_ignores_that(lock: BinaryIO) -> None:
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('here', flush=True); time.sleep(600)"
    with guarded(lock, deaf) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        time.sleep(1)
        assert process.poll() is None
        lock.close()
        assert process.wait() == 128 + 9


def test_the_guard_puts_the_runs_modules_before_those_of_the_image(
    lock: BinaryIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIT_SEARCH", "/run")
    monkeypatch.setenv("PYTHONPATH", "/image")
    with guarded(lock, "import os; print(os.environ['PYTHONPATH'], 'KIT_SEARCH' in os.environ)") as process:
        assert process.communicate()[0] == b"/run:/image False\n"
