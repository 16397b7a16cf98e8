"""The order of the samples in the epochs of a program."""

from pathlib import Path

import pytest

from runner.tools.check.checking import check
from runner.tools.check.processes import Program

TRAINS = """
import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

torch.distributed.init_process_group("gloo")
torch.manual_seed(1)
data = TensorDataset(torch.randn(64, 3), torch.randn(64, 1))
loader = DataLoader(data, 8, sampler=DistributedSampler(data))
model = nn.parallel.DistributedDataParallel(nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for epoch in range(3):
    print("batch of", len(next(iter(loader))[0]))
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
"""


@pytest.mark.slow
@pytest.mark.usefixtures("forked")
def test_a_shuffling_sampler_without_set_epoch_is_noted_if_one_process_repeats_too(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINS)
    verdict = check(Program([["train.py"]] * 2, tmp_path), 2, 300, tmp_path / "seen", lambda _: None)
    assert {finding.kind for finding in verdict.findings} == {"global-batch", "same-order"}
    assert (verdict.word, verdict.unknown) == ("same", [])
