"""What all tests share. Tests that need an engine, a cluster or MLflow are left out, in one line, if there is none."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

from runner.core.errors import RequestError
from runner.targets.compose.engine import check_compose, reach
from runner.targets.compose.image import read_lock
from runner.targets.kubernetes.client import PATHS, Cluster, ClusterError
from tests.support import browser, ssh_hosts
from tests.support.cluster import kinds_of_runs
from tests.support.fork_server import ForkServer
from tests.support.jobs import missing_for_slurm_tests
from tests.support.patience import crowding

pytest_plugins = ["tests.support.fixtures"]

# No deadline: other work on the machine slows the tests down. Every run tries the same values, so that a failure always
# comes from the change that is tested. `pytest --hypothesis-profile=search` tries new values.
settings.register_profile("kit", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=2_000)
settings.load_profile("kit")

ROOT = Path(__file__).resolve().parents[1]
SLOWEST_FIRST = (
    "test_corpus.py",
    "experiments",
    "fuzz",
    "contract",
    "cluster",
    "containers",
    "execution",
    "test_documents.py",
    "cli",
)
"""Below tests/: what a worker of pytest-xdist should begin with, so that none is left with a long file at the end."""
LONGEST_ID = 1_000
LEFT_OUT = pytest.StashKey[list[str]]()
FORK_SERVER = pytest.StashKey[ForkServer]()
STATE = pytest.StashKey[str]()
"""The folder of the runs that the tests start, in place of the person's own."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files again; then read the diff")


def pytest_configure(config: pytest.Config) -> None:
    """Start one server for all workers of pytest-xdist; it imports nothing before it is asked."""
    if not hasattr(config, "workerinput"):
        config.stash[FORK_SERVER] = ForkServer()
        os.environ["XDG_STATE_HOME"] = config.stash[STATE] = tempfile.mkdtemp(prefix="kit-state-")
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        # Byte code goes by the second: a program that a test writes twice within one would run as it was.
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


def pytest_unconfigure(config: pytest.Config) -> None:
    if FORK_SERVER in config.stash:
        config.stash[FORK_SERVER].close()
        shutil.rmtree(config.stash[STATE], ignore_errors=True)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """End a test that hangs, later on a crowded machine: no command that a test waits for has a bound of its own."""
    if not item.get_closest_marker("timeout") and not item.config.getoption("timeout"):
        item.add_marker(pytest.mark.timeout(float(item.config.getini("timeout")) * crowding()))
    return (yield)


@pytest.fixture(scope="session")
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Hold a text against its golden file, which is written first if that is asked for."""

    def hold(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.write_text(text, "utf-8")
        assert text == path.read_text("utf-8")

    return hold


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name long values by their length: the name of a test is in the environment of every process that it starts."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_ID:
        return f"{argname}-of-{len(val)}"
    return None


@pytest.hookimpl(trylast=True)  # behind the choice by -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put slow files first; leave out what needs something that is not there, unless KIT_REQUIRE has it."""
    places = {name: number for number, name in enumerate(SLOWEST_FIRST)}
    items.sort(
        key=lambda item: min(places.get(part, len(places)) for part in item.path.relative_to(ROOT / "tests").parts)
    )
    config.stash[LEFT_OUT] = []
    if "series" not in config.option.markexpr:
        left = [item for item in items if item.get_closest_marker("series")]
        items[:] = [item for item in items if item not in left]
        config.hook.pytest_deselected(items=left)
    for marker, (what, missing_for) in NEEDS.items():
        need = [item for item in items if item.get_closest_marker(marker)]
        if not need or not (missing := missing_for()):
            continue
        if marker in os.environ.get("KIT_REQUIRE", "").split():
            raise pytest.UsageError(missing)
        items[:] = [item for item in items if item not in need]
        config.hook.pytest_deselected(items=need)
        how = "CONTRIBUTING.md says how to run them"
        config.stash[LEFT_OUT].append(f"left out: {len(need)} tests of {what}: {missing}; {how}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash.get(LEFT_OUT, []):
        terminalreporter.write_line(line, yellow=True)


def missing_for_engine_tests() -> str | None:
    """Look for an engine, for Compose, and for base images in the engine: a test run pulls none."""
    try:
        client = reach()
        client.close()
        check_compose()
    except RequestError as error:
        return str(error)
    for name, locked in read_lock(ROOT).items():
        base = os.environ.get(name) or locked
        held = subprocess.run(["docker", "image", "inspect", base], capture_output=True, check=False)
        if held.returncode:
            return f"the engine does not hold the base image {base}: docker pull {base}, or name another with {name}"
    return None


def missing_for_cluster_tests() -> str | None:
    """Look for a cluster with the operator, and for a way to bring an image to it; KUBECONFIG has to name it."""
    if "KUBECONFIG" not in os.environ:
        return "KUBECONFIG names no cluster"
    if "KIT_LOAD" not in os.environ:
        return "KIT_LOAD names no command that brings images to the cluster, for example 'kind load docker-image'"
    try:
        cluster = Cluster()
        known = [resource.get("kind") for resource in cluster.get(PATHS["PyTorchJob"]).get("resources", [])]
    except (RequestError, ClusterError) as error:
        return str(error)
    return missing_for_engine_tests() if "PyTorchJob" in known else "the cluster knows no PyTorchJob"


def missing_for_trainer_tests() -> str | None:
    """Look for Kubeflow Trainer and JobSet in the cluster."""
    if missing := missing_for_cluster_tests():
        return missing
    known = kinds_of_runs()
    return None if "trainjobs" in known else "the cluster has no Kubeflow Trainer: .ci/cluster up --trainer"


def missing_for_mlflow_tests() -> str | None:
    """Look for MLflow, which has a list of packages of its own."""
    return None if find_spec("mlflow") else "the package mlflow is not installed: make mlflow"


def missing_for_browser_tests() -> str | None:
    """Look for a browser."""
    return None if browser.find() else "there is no browser: on Debian, install the package chromium"


def missing_for_network_tests() -> str | None:
    """Fetch packages only if that is asked for."""
    asked = "network" in os.environ.get("KIT_REQUIRE", "").split()
    return None if asked else "they fetch packages: KIT_REQUIRE=network runs them"


NEEDS = {
    "network": ("a clean installation", missing_for_network_tests),
    "mlflow": ("the export to MLflow", missing_for_mlflow_tests),
    "browser": ("pages in a browser", missing_for_browser_tests),
    "slurm": ("a Slurm cluster", missing_for_slurm_tests),
    "engine": ("containers", missing_for_engine_tests),
    "cluster": ("a cluster", missing_for_cluster_tests),
    "trainer": ("Kubeflow Trainer", missing_for_trainer_tests),
    "hosts": ("hosts by SSH", ssh_hosts.missing),
}
