"""An experiment at its smallest runs, and is made again from its record, on this machine and on a cluster."""

import json
from pathlib import Path

import pytest

from tests.contract.harness import Harness
from tests.contract.targets import TARGETS
from tests.experiments import tiny_bert
from tests.support.projects import Project
from tests.support.smallest import SMALLEST

CASES = [
    pytest.param(*TARGETS[target].values, name, layout, marks=TARGETS[target].marks)
    for target, name, layout in (
        ("local", "quickstart", "1x2"),
        ("local", "collectives", "2x1"),
        ("pytorchjob", "bert", "1x1"),
    )
]
"""test_same_records runs MNIST, and tests/containers/test_image.py imports all programs."""


@pytest.fixture
def copied(committed: Project) -> Project:
    """Let the harness run a repository."""
    return committed


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a tiny BERT."""
    return tiny_bert.make(tmp_path_factory.mktemp("tiny")) / "bert"


@pytest.mark.parametrize(("harness", "name", "layout"), CASES, indirect=["harness"])
def test_an_experiment_runs_and_comes_out_again_from_its_record_bit_for_bit(
    harness: Harness, name: str, layout: str, tiny: Path, tmp_path: Path
) -> None:
    harness.project.forked = True  # nobody looks at the processes
    with harness.data("bert", tiny) as data:
        done, record = harness.run(name, *SMALLEST[name].words(f"layout={layout}"), *data)
        assert done.code == 0, done.snapshot
        assert record["status"] == "completed"
        assert record["metrics"][record["launch"]["measure"]] > 0
        assert record["events"]["seen"] == record["events"]["expected"]
        assert all(node["code"] == 0 for node in record["outcome"]["exits"])
        run = harness.project.results / name / record["launch"]["id"]
        words = ["reproduce", run, *harness.words, *data, "--results", tmp_path / "again", "--json"]
        done = harness.project.runner(*words)
    assert done.code == 0, done.snapshot
    (verdict,) = json.loads(done.stdout)["runs"]
    assert verdict["checks"][0]["same"] is True
    assert verdict["level"] >= 2
