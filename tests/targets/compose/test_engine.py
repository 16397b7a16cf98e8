"""An engine that cannot be used is refused in one line, before anything is written."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from runner.core.errors import RequestError
from runner.targets.compose import engine
from tests.support.projects import Project


def test_no_engine_is_said_with_its_place_and_nothing_is_written(project: Project) -> None:
    before = project.written()
    nowhere = f"unix://{project.root.parent}/none.sock"
    done = project.runner("run", "tiny", "--on", "compose", "--device", "cpu", env={"DOCKER_HOST": nowhere})
    assert (done.code, done.stdout) == (2, ""), done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: no Docker Engine answers at unix://")
    assert project.written() == before


@pytest.mark.parametrize(("script", "why"), [("", "no docker command"), ("exit 1", "no Compose plugin")])
def test_a_command_or_a_plugin_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    if script:
        (tmp_path / "docker").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RequestError, match=why):
        engine.check_compose.__wrapped__()


@pytest.mark.parametrize(("shm", "memory", "why"), [("32mb", "0", "shm_size=32mb"), ("1gb", "much", "memory=much")])
def test_a_size_that_is_none_or_too_small_is_refused(shm: str, memory: str, why: str) -> None:
    engine.check_sizes("64mb", "1gb", 2)
    with pytest.raises(RequestError, match=f"--with {why}: "):
        engine.check_sizes(shm, memory, 2)


def test_an_engine_on_another_machine_is_refused() -> None:
    def check(url: str) -> None:
        engine.check_here(SimpleNamespace(api=SimpleNamespace(base_url=url)))

    with pytest.raises(RequestError, match=r"far\.example"):
        check("https://far.example:2376")
    for near in ("http+docker://localhost", "http://127.0.0.1:2375"):
        check(near)
