"""What a program needs of its image and network is there: some experiments at their smallest; some are run again."""

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.contract.harness import Harness
from tests.contract.targets import TARGETS
from tests.experiments import tiny_bert
from tests.support.projects import Project
from tests.support.smallest import BERT, SMALLEST

RUN_AGAIN = {
    "local": ("quickstart", "collectives"),
    "pytorchjob": ("bert",),
}
RUN_ONCE = {"compose": ("script-mnist", "bert-slow-link")}
"""test_same_records runs MNIST, and tests/containers/test_image.py imports all programs."""


CASES = [
    pytest.param(*TARGETS[target].values, name, again, marks=TARGETS[target].marks)
    for names, again in ((RUN_ONCE, False), (RUN_AGAIN, True))
    for target, experiments in names.items()
    for name in experiments
]


@pytest.fixture
def copied(committed: Project) -> Project:
    """Let the harness run a repository."""
    return committed


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a tiny BERT."""
    return tiny_bert.make(tmp_path_factory.mktemp("tiny")) / "bert"


@pytest.mark.parametrize(("harness", "name", "again"), CASES, indirect=["harness"])
def test_an_experiment_runs_and_comes_out_again_from_its_record_bit_for_bit(
    harness: Harness, name: str, request: pytest.FixtureRequest, tmp_path: Path, *, again: bool
) -> None:
    small = SMALLEST[name]
    harness.project.forked = True  # nobody looks at the processes
    with harness.data("bert", request.getfixturevalue("tiny")) if name in BERT else nullcontext([]) as data:
        done, records = harness.run_all(name, *small.words(small.contained), *data)
        assert done.code == 0, done.snapshot
        for record in records:
            assert record["status"] == "completed"
            assert record["metrics"][record["launch"]["measure"]] > 0
            assert record["events"]["seen"] == record["events"]["expected"]
            assert all(node["code"] == 0 for node in record["outcome"]["exits"])
        if not again:
            return
        (record,) = records
        run = harness.project.results / name / record["launch"]["id"]
        words = ["reproduce", run, *harness.words, *data, "--results", tmp_path / "again", "--json"]
        done = harness.project.runner(*words)
    assert done.code == 0, done.snapshot
    (verdict,) = json.loads(done.stdout)["runs"]
    assert verdict["checks"][0]["same"] is True
    assert verdict["level"] >= 2
