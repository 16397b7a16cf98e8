"""Small experiments run and are reproduced from their records, on this machine and on a cluster."""

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
"""Further programs: MNIST in test_same_records; tests/containers/test_image.py imports all."""


@pytest.fixture
def copied(committed: Project) -> Project:
    """Make the harness use a committed project."""
    return committed


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data of a tiny BERT."""
    return tiny_bert.make(tmp_path_factory.mktemp("tiny")) / "bert"


@pytest.mark.parametrize(("harness", "name", "layout"), CASES, indirect=["harness"])
def test_an_experiment_runs_and_comes_out_again_from_its_record_bit_for_bit(
    harness: Harness, name: str, layout: str, tiny: Path, tmp_path: Path
) -> None:
    harness.project.forked = True
    with harness.data(tiny) as data:
        done, record = harness.run(name, *SMALLEST[name].words(f"layout={layout}"), *data)
        assert (done.code, record["status"]) == (0, "completed"), done.snapshot
        assert record["metrics"][record["launch"]["measure"]] > 0
        assert record["events"]["seen"] == record["events"]["expected"]
        run = harness.project.results / name / record["launch"]["id"]
        words = ["reproduce", run, *harness.words, *data, "--results", tmp_path / "again", "--json"]
        done = harness.project.runner(*words)
    assert done.code == 0, done.snapshot
    (verdict,) = json.loads(done.stdout)["runs"]
    assert verdict["checks"][0]["same"] is True
    assert verdict["level"] >= 2
