"""The scripts of docs/own-scripts/, run from a definition without a dialect."""

from typing import Any

import pytest

from tests.support.projects import ROOT, Project
from tests.support.slow import slow_but

SCRIPTS = ROOT / "docs" / "own-scripts"
EPOCHS = {
    "minimal": "epochs",
    "lightning_digits": "epochs",
    "accelerate_digits": "epochs",
    "huggingface_text": "num_train_epochs",
}
"""Each script and its argument for the number of epochs."""
TRAINED = {"huggingface_text": (1000, 1024), "accelerate_digits": (1440, 1536)}
"""Samples of an epoch in one process and in two, including those that fill the last batches."""
TESTED = {"huggingface_text": 200}


@pytest.mark.parametrize("name", slow_but(["minimal"], EPOCHS))
def test_a_script_has_a_complete_record_and_a_row(name: str, project: Project) -> None:
    (project.root / "train.py").write_text((SCRIPTS / f"{name}.py").read_text("utf-8"), "utf-8")
    project.define(program="train.py", args={EPOCHS[name]: 2}, scaling="weak")
    done = project.runner("run", "tiny", "--device", "cpu")
    assert done.code == 0, done.snapshot
    records: list[dict[str, Any]] = [project.record(folder) for folder in project.runs()]
    records.sort(key=lambda record: str(record["launch"]["layout"]))
    for processes, record in zip((1, 2), records, strict=True):
        assert record["status"] == "completed", record.get("reason")
        assert record.get("doubts", []) == []
        assert record["events"]["seen"] == record["events"]["expected"] > 0
        trained = TRAINED.get(name, (1440, 1440))[processes - 1]
        batch = (32 if name == "huggingface_text" else 64) * processes
        epochs, tests = record["epochs"], record["evaluations"]
        assert [row["epoch_num"] for row in epochs] == [row["epoch_num"] for row in tests] == [1, 2]
        for row in epochs:
            assert row["trained_samples"] == sum(row["samples_by_rank"].values()) == trained
            assert row["steps"] == -(-trained // batch)
        assert record["metrics"]["final_loss"] == epochs[1]["loss"] < epochs[0]["loss"]
        assert record["metrics"]["final_accuracy"] == tests[1]["accuracy"] > 0.6
        # Lightning's own loader repeats a sample so that both processes have equally many; others count each once.
        tested = TESTED.get(name, 357) + (name == "lightning_digits" and processes == 2)
        assert {row["samples"] for row in tests} == {tested}
        assert record["facts"]["global_batch_size"] == batch
        assert "sources_sha256" not in record["ranks"][0]["facts"]  # only the runner knows the script's imports
    assert "train.py" in project.runner("summarize", "results", "--format", "json").stdout


def test_every_documented_script_is_tested() -> None:
    assert {path.stem for path in SCRIPTS.glob("*.py")} == set(EPOCHS)
