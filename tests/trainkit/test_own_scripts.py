"""The scripts of docs/own-scripts/, each in a project of its own, run from a definition without dialect."""

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
"""Each script and how it calls its number of epochs."""
TRAINED = {"huggingface_text": (1000, 1024), "accelerate_digits": (1440, 1536)}
"""Samples of an epoch in one process and in two: what fills the last batches up is trained on too."""
TESTED = {"huggingface_text": 200}


def records(project: Project, name: str, **changes: Any) -> list[dict[str, Any]]:
    """Put a script into a project, run it in one process and in two; its records by the layout."""
    (project.root / "train.py").write_text((SCRIPTS / f"{name}.py").read_text("utf-8"), "utf-8")
    values: dict[str, Any] = {"args": {EPOCHS[name]: 2}, "scaling": "weak", **changes}
    project.define(program="train.py", **values)
    done = project.runner("run", "tiny", "--device", "cpu")
    assert done.code == 0, done.snapshot
    found = [project.record(folder) for folder in project.runs()]
    return sorted(found, key=lambda record: str(record["launch"]["layout"]))


def test_every_script_of_the_documents_is_tried() -> None:
    assert {path.stem for path in SCRIPTS.glob("*.py")} == set(EPOCHS)


@pytest.mark.parametrize("name", slow_but(["minimal"], EPOCHS))
def test_a_script_of_ones_own_has_a_complete_record_and_a_row(name: str, project: Project) -> None:
    for processes, record in zip((1, 2), records(project, name), strict=True):
        assert record["status"] == "completed", record.get("reason")
        assert record.get("doubts", []) == []
        assert "dialects" not in record["launch"]
        assert record["events"]["seen"] == record["events"]["expected"] > 0
        trained = TRAINED.get(name, (1440, 1440))[processes - 1]
        batch = (32 if name == "huggingface_text" else 64) * processes
        epochs = record["epochs"]
        assert [row["epoch_num"] for row in epochs] == [1, 2]
        for row in epochs:
            assert row["trained_samples"] == sum(row["samples_by_rank"].values()) == trained
            assert (len(row["samples_by_rank"]), row["steps"]) == (processes, -(-trained // batch))
        assert epochs[1]["loss"] < epochs[0]["loss"]
        metrics = record["metrics"]
        assert metrics["final_loss"] == epochs[1]["loss"]
        tests = record["evaluations"]
        assert [row["epoch_num"] for row in tests] == [1, 2]
        assert tests[1]["accuracy"] == metrics["final_accuracy"] > 0.6
        tested = TESTED.get(name, 357)
        # Lightning's own loader repeats a sample to give both processes as many; all others count each once.
        assert {row["samples"] for row in tests} == {tested + (name == "lightning_digits" and processes == 2)}
        facts = record["facts"]
        assert (facts["global_batch_size"], facts["train_samples"]) == (batch, trained)
        start = record["ranks"][0]["facts"]
        assert "sources_sha256" not in start  # the runner's own hash counts: it knows what the script imports
        assert len(record["launch"]["code"]["sources_sha256"]) == 64
    assert "train.py" in project.runner("summarize", "results", "--format", "json").stdout
