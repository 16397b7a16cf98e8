"""The record of a script that is observed from inside, on this machine."""

import pytest

from tests.support.projects import Project

SCRIPT = """
import argparse, torch, torch.distributed as dist
parser = argparse.ArgumentParser(); parser.add_argument("--epochs", type=int, default=2)
epochs = parser.parse_args().epochs
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.ones(40, 4))
sampler = torch.utils.data.DistributedSampler(data)
for _ in range(epochs):
    for (batch,) in torch.utils.data.DataLoader(data, 5, sampler=sampler):
        optimizer.zero_grad(); model(batch).mean().backward(); optimizer.step()
"""


@pytest.mark.parametrize("layout", ["1x1", "1x2"])
def test_what_each_rank_of_a_script_did_is_kept(layout: str, project: Project) -> None:
    project.forked = False  # the hooks must be imported before torch
    (project.root / "train.py").write_text(SCRIPT)
    done = project.runner("run", "train.py", "--layout", layout, "--device", "cpu", "--repeat", "1")
    assert done.code == 0, done.snapshot
    record = project.record(project.runs("train")[0])
    size = int(layout[-1])
    seen = [rank["observed"] for rank in record["ranks"]]
    assert [(rank["steps"], rank["samples"]) for rank in seen] == [(16 // size, 80 // size)] * size
    assert seen[0]["groups"] == [{"size": size, "backend": "gloo", "count": 1}]
    assert not record.get("doubts")
    assert record["events"]["seen"] == 0


@pytest.mark.parametrize("words", [pytest.param([], marks=pytest.mark.slow), ["--no-observe"]])
def test_versions_of_a_script_are_observed_alike(words: list[str], project: Project) -> None:
    project.forked = False
    (project.root / "train.py").write_text(SCRIPT)
    project.define(program="train.py", dialect="epoch-losses", matrix={"layout": ["1x1"]})
    done = project.runner("compare", ".", ".", "--experiment", "tiny", "--device", "cpu", "--repeat", "1", *words)
    records = [project.record(run) for run in project.runs("tiny")]
    assert ["observed" in record["ranks"][0] for record in records] == [not words] * 2, done.snapshot
