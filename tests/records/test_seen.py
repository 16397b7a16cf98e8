"""Whether the processes of a run trained together, by what was noted in them."""

import subprocess
import sys
from pathlib import Path

import pytest

from runner.core.layout import Layout
from runner.records.folder import RawFiles
from runner.records.parse import not_trained
from runner.records.schema import NO_TRAINING
from runner.targets.clean_environment import clean_environment
from runner.targets.local import HOOKS
from tests.support.records import make_launch


@pytest.mark.parametrize(
    ("layout", "ranks", "doubt"),
    [
        ("1x2", ["group 0 2", "group 1 2"], ""),
        ("1x2", ["group 0 1, group 1 2", "group 0 2"], ""),
        ("1x2", ["group 0 1", "group 0 1"], "group of 1"),
        ("1x2", ["", ""], ""),  # without torch nothing is known
        ("1x2", ["torch", "torch"], "rank 0, 1 of 2 joined no process group"),
        ("1x2", ["group 0 2", "group 0 2"], "size of 2"),
        ("1x1", ["group 0 4"], "size of 4"),
        ("1x1", ["spawned 0"], "0 processes"),
        ("1x1", ["optimizer"], "no gradient"),
        ("1x1", ["optimizer, gradient"], ""),
    ],
)
def test_a_run_that_did_not_train_in_its_layout_is_doubted(
    tmp_path: Path, layout: str, ranks: list[str], doubt: str
) -> None:
    for rank, notes in enumerate(ranks):
        if notes:
            (tmp_path / f"node0-rank{rank}.seen").write_text(notes.replace(", ", "\n"))
    doubts = list(not_trained(RawFiles(tmp_path, Layout.parse(layout)), make_launch(layout=layout)))
    assert len(doubts) == bool(doubt)
    assert all(found.startswith(NO_TRAINING) and doubt in found for found in doubts)


def test_a_process_notes_its_group_and_its_gradients_beside_another_sitecustomize(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("print('own')\n")
    script = """
import torch, torch.distributed as dist, torch.multiprocessing as mp
dist.init_process_group("gloo", init_method="file://" + FILE, rank=0, world_size=1)
model = torch.nn.Linear(2, 1); torch.optim.SGD(model.parameters(), 0.1)
for _ in range(2): model(torch.ones(1, 2)).sum().backward()
mp.spawn(print, nprocs=0)
"""
    env = {"PYTHONPATH": f"{HOOKS}:{tmp_path / 'own'}", "KIT_SEEN": str(tmp_path / "node0"), "RANK": "3"}
    words = [sys.executable, "-c", script.replace("FILE", repr(str(tmp_path / "store")))]
    done = subprocess.run(words, env=clean_environment() | env, capture_output=True, text=True, check=True)
    assert done.stdout == "own\n"
    notes = (tmp_path / "node0-rank3.seen").read_text()
    assert notes == "torch\ngroup 0 1\noptimizer\ngradient\nspawned 0\n"


def test_a_step_of_another_launcher_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {"SLURM_TMPDIR", "SLURM_CPUS_PER_TASK", "OMPI_MCA_btl", "HOME"}
    left = {"RANK", "SLURM_PROCID", "SLURM_JOB_ID", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "NODE_RANK"}
    for name in kept | left:
        monkeypatch.setenv(name, "0")
    assert clean_environment().keys() & (kept | left) == kept
    assert "SLURM_TMPDIR" not in clean_environment("SLURM_")
