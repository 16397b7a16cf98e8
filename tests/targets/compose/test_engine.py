"""An unusable engine is refused in one line, before anything is written."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from runner.core.errors import RequestError
from runner.targets.compose import engine
from tests.support.projects import Project


def test_no_engine_is_said_with_its_place_and_nothing_is_written(project: Project) -> None:
    before = project.written()
    nowhere = f"unix://{project.root.parent}/none.sock"
    line = project.refused("run", "tiny", "--on", "compose", "--device", "cpu", env={"DOCKER_HOST": nowhere})
    assert "Docker Engine answers at unix://" in line
    assert project.written() == before


def test_a_missing_command_or_plugin_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RequestError, match="no docker command"):
        engine.check_compose.__wrapped__()
    (tmp_path / "docker").symlink_to("/bin/false")
    with pytest.raises(RequestError, match="no Compose plugin"):
        engine.check_compose.__wrapped__()


@pytest.mark.parametrize(("shm", "memory", "why"), [("32mb", "0", "shm_size=32mb"), ("1gb", "much", "memory=much")])
def test_an_invalid_or_too_small_size_is_refused(shm: str, memory: str, why: str) -> None:
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
