"""What every test folder can ask for: a project, one with finished runs, makers of records, images and namespaces."""

import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runner.core import clock
from runner.core.layout import Layout
from tests.support.cluster import load, own_namespace
from tests.support.containers import Images, base_image, build_images, copy_project
from tests.support.held_clock import HeldClock
from tests.support.installed import Installed, build_wheel, install
from tests.support.projects import WEIRD, Project, make_project
from tests.support.records import Make
from tests.support.repository import commit_all

Once = Callable[[str, Callable[[], object]], None]


@pytest.fixture
def held_clock(monkeypatch: pytest.MonkeyPatch) -> HeldClock:
    """The runner's clock in this process, which stands still until the test moves it."""
    held = HeldClock()
    for name in clock.__all__:
        monkeypatch.setattr(clock, name, getattr(held, name))
    return held


@pytest.fixture
def weird_path(tmp_path: Path) -> Path:
    path = tmp_path / WEIRD
    path.mkdir()
    return path


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Name a results folder, which is not there yet."""
    return tmp_path / "results"


@pytest.fixture
def project(weird_path: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Project:
    real = any(request.node.get_closest_marker(name) for name in ("real_processes", "engine", "cluster"))
    return make_project(weird_path, tmp_path / "cache", forked=not real)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose one experiment has been run at 1x1 and 1x2; not to be changed."""
    base = tmp_path_factory.mktemp("finished")
    project = make_project(base / WEIRD, base / "cache")
    project.define(matrix={"layout": ["1x1", "1x2"]})
    ended = project.runner("run", "tiny")
    assert ended.code == 0, ended.snapshot
    return project


@pytest.fixture(scope="session")
def make() -> Make:
    return Make()


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The kit's wheel in an environment of its own; not to be changed."""
    base = tmp_path_factory.mktemp("installed")
    return install(base / "venv", build_wheel(base))


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of these tests have in common."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def once(shared: Path) -> Once:
    """Do something in the first worker that needs it; the others wait for it, and fail if it failed."""

    def once(name: str, do: Callable[[], object]) -> None:
        with (shared / f"once-{name}").open("a+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            if said := file.read():
                assert said == "done", f"{name} has failed in another worker"
                return
            file.write("failed")
            file.flush()
            do()
            file.truncate(0)
            file.write("done")

    return once


@pytest.fixture(scope="session")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of this project, with odd programs."""
    return copy_project(tmp_path_factory.mktemp("copied"))


@pytest.fixture(scope="session")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of this project that is a repository: what is run again needs a commit."""
    project = copy_project(tmp_path_factory.mktemp("committed"))
    commit_all(project.root)
    return project


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory, once: Once) -> Images:
    """The images of the copied project, of which every worker has the same copy."""
    once("images", lambda: build_images(copy_project(tmp_path_factory.mktemp("built")).root))
    return Images("distributed-experiment-kit:cpu", "distributed-experiment-kit:gpu", base_image())


@pytest.fixture(scope="session")
def loaded(image: Images, once: Once) -> Images:
    """The images, on the cluster."""
    once("loaded", lambda: load(image))
    return image


@pytest.fixture
def processes(request: pytest.FixtureRequest) -> int:
    """How many processes a test's pods make room for: as many as its layout has; a test may say otherwise."""
    layout = getattr(request.node, "callspec", None) and request.node.callspec.params.get("layout")
    return Layout.parse(layout).world_size if layout else 2


@pytest.fixture
def namespace(shared: Path, processes: int) -> Iterator[str]:
    """A namespace of the test's own, with room for the test's processes."""
    with own_namespace(shared, processes) as name:
        yield name
