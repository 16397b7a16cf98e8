"""Every experiment of this project runs in containers and in pods, at its smallest."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.contract.targets import on
from tests.experiments import tiny_bert
from tests.support.smallest import BERT, SMALLEST

if TYPE_CHECKING:
    from pathlib import Path

    from tests.contract.harness import Harness


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a tiny BERT."""
    return tiny_bert.make(tmp_path_factory.mktemp("tiny")) / "bert"


@pytest.mark.parametrize("name", SMALLEST)
@on("compose", "pytorchjob")
def test_an_experiment_runs(harness: Harness, name: str, request: pytest.FixtureRequest) -> None:
    small = SMALLEST[name]
    words = small.words(small.contained)
    with ExitStack() as data:
        if name in BERT:
            words += data.enter_context(harness.data("bert", request.getfixturevalue("tiny")))
        done, records = harness.run_all(name, *words)
    assert done.code == 0, done.snapshot
    for record in records:
        assert record["status"] == "completed"
        assert record["metrics"][record["launch"]["measure"]] > 0
        assert record["events"]["seen"] == record["events"]["expected"]
        assert all(one["code"] == 0 for one in record["outcome"]["exits"])
