"""What a program needs of its image and network is there: some experiments at their smallest; some are run again."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from tests.contract.harness import Harness
from tests.contract.targets import TARGETS
from tests.experiments import tiny_bert
from tests.support.projects import Project
from tests.support.smallest import BERT, SMALLEST

RUN_AGAIN = {
    "local": ("quickstart", "collectives"),
    "compose": ("bert",),
    "pytorchjob": ("bert",),
}
RUN_ONCE = {"compose": ("mnist-balance", "collectives", "resnet50", "script-mnist", "bert-slow-link")}
"""One of each kind of program; test_same_records runs MNIST, and tests/containers/test_image.py imports them all."""


def cases(names: dict[str, Any]) -> pytest.MarkDecorator:
    """Run a test on each target with its experiments."""
    found = [
        pytest.param(*TARGETS[target].values, name, marks=TARGETS[target].marks)
        for target, experiments in names.items()
        for name in experiments
    ]
    return pytest.mark.parametrize(("harness", "name"), found, indirect=["harness"])


@pytest.fixture
def copied(committed: Project) -> Project:
    """Let the harness run a repository."""
    return committed


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a tiny BERT."""
    return tiny_bert.make(tmp_path_factory.mktemp("tiny")) / "bert"


@contextmanager
def experiment(
    harness: Harness, name: str, request: pytest.FixtureRequest
) -> Iterator[tuple[list[dict[str, Any]], list[str]]]:
    """Run an experiment at its smallest, while its data are there; yield the records, and the words for the data."""
    small = SMALLEST[name]
    harness.project.forked = True  # nobody looks at the processes
    with harness.data("bert", request.getfixturevalue("tiny")) if name in BERT else nullcontext([]) as words:
        done, records = harness.run_all(name, *small.words(small.contained), *words)
        assert done.code == 0, done.snapshot
        for record in records:
            assert record["status"] == "completed"
            assert record["metrics"][record["launch"]["measure"]] > 0
            assert record["events"]["seen"] == record["events"]["expected"]
            assert all(node["code"] == 0 for node in record["outcome"]["exits"])
        yield records, words


@cases(RUN_ONCE)
def test_an_experiment_runs(harness: Harness, name: str, request: pytest.FixtureRequest) -> None:
    with experiment(harness, name, request):
        pass


@cases(RUN_AGAIN)
def test_an_experiment_runs_and_comes_out_again_from_its_record_bit_for_bit(
    harness: Harness, name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with experiment(harness, name, request) as ((record,), data):
        run = harness.project.results / name / record["launch"]["id"]
        words = ["reproduce", run, *harness.words, *data, "--results", tmp_path / "again", "--json"]
        done = harness.project.runner(*words)
    assert done.code == 0, done.snapshot
    (verdict,) = json.loads(done.stdout)["runs"]
    assert verdict["checks"][0]["same"] is True
    assert verdict["level"] >= 2
