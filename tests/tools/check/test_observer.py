"""What the observer does to a program: nothing; what it cannot see; and what is left of what a program saves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runner.tools.check.checking import check
from runner.tools.check.processes import Job, Program, run

TRAINS = """
import os, random
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

if int(os.environ["WORLD_SIZE"]) > 1:
    torch.distributed.init_process_group("gloo")
torch.manual_seed(1), random.seed(2), np.random.seed(3)
data, test = random_split(TensorDataset(torch.randn(96, 3), torch.randn(96, 1)), [64, 32])
model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(), nn.Linear(8, 1))
if int(os.environ["WORLD_SIZE"]) > 1:
    model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.Adam(model.parameters(), 0.1)
for epoch in range(2):
    for x, y in DataLoader(data, 8, shuffle=True):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x + random.random() + np.random.rand()), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print("LOSS", loss.item().hex())
    with torch.no_grad():
        print("TEST", sum(nn.functional.mse_loss(model(x), y).item() for x, y in DataLoader(test, 8)).hex())
print("LEFT", torch.rand(1).item().hex(), random.random().hex(), float(np.random.rand()).hex())
"""

ALONE = """
import torch
weights = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([weights], 0.1)
for _ in range(3):
    optimizer.zero_grad()
    (weights * weights).sum().backward()
    optimizer.step()
"""

PARTS = """
import torch
torch.distributed.init_process_group("gloo")
layer = torch.nn.Linear(4, 8 // torch.distributed.get_world_size())
optimizer = torch.optim.SGD(layer.parameters(), 0.1)
for _ in range(3):
    optimizer.zero_grad()
    layer(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""

STARTS = """
import os, torch, torch.distributed as dist, torch.multiprocessing as mp
def work(rank):
    dist.init_process_group('gloo', init_method='file://' + os.path.abspath('met'), rank=rank, world_size=2)
    p = torch.nn.Parameter(torch.ones(2))
    o = torch.optim.SGD([p], 0.1)
    (p * p).sum().backward()
    o.step()
if __name__ == '__main__':
    mp.spawn(work, nprocs=2)
    os.remove('met') if os.path.exists('met') else None
"""

SAVES = """
import os, shutil, sys, torch
weights = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([weights], 0.1)
if os.environ["RANK"] != "0":
    sys.exit()
for name in ("new.pt", "old.pt"):
    torch.save(1, name)
    assert torch.load(name) == 1
shutil.rmtree("kept")
os.mkdir("made")
open("made/state.json", "w").write("{}")
"""


@pytest.mark.slow
@pytest.mark.parametrize("world", [1, 2])
def test_losses_and_random_numbers_are_bit_for_bit_those_without_it(tmp_path: Path, world: int) -> None:
    (tmp_path / "train.py").write_text(TRAINS)
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(world), "--redirects", "3"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([*words, "--log-dir", tmp_path / "plain", "train.py"], cwd=tmp_path, env=environment, check=True)
    assert run(Job(Program([["train.py"]] * 2, tmp_path), world, tmp_path / "seen"), 300) == ""
    for rank in range(world):
        (without,) = (tmp_path / "plain").glob(f"*/attempt_0/{rank}/stdout.log")
        seen = (tmp_path / "seen" / f"output-{rank}.txt").read_text().splitlines()
        assert [line for line in seen if line[:4] in ("LOSS", "TEST", "LEFT")] == without.read_text().splitlines()
        assert len(seen) >= 19


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(STARTS, "{n}", marks=pytest.mark.slow, id="how many processes it starts is asked for"),
        ("print(1)", "no torch optimizer"),
        ("import torch\nraise SystemExit('no data here')", "no data here"),
        (ALONE, "form no group"),
        (PARTS, "part of the model"),
    ],
)
@pytest.mark.usefixtures("forked")
def test_what_cannot_be_seen_is_unknown_with_its_reason(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(text)
    program = Program([["train.py"]] * 2, tmp_path, alone=text == STARTS)
    verdict = check(program, 2, 300, tmp_path / "seen", lambda _: None)
    assert verdict.word == "unknown"
    assert why in " ".join(verdict.unknown)


def test_a_run_leaves_no_checkpoint_for_the_next_and_the_one_that_was_there_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SAVES)
    (tmp_path / "old.pt").write_bytes(b"of a person")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "model.bin").write_bytes(b"weights")
    assert run(Job(Program([["train.py"]] * 2, tmp_path), 2, tmp_path / "seen"), 300) == ""
    assert (tmp_path / "old.pt").read_bytes() == b"of a person"
    assert (tmp_path / "kept" / "model.bin").read_bytes() == b"weights"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "old.pt", "seen", "train.py"]
