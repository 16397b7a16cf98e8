"""How a training goes on that was ended: `runner check --resume`."""

from pathlib import Path
from tempfile import mkdtemp

import pytest

from runner.tools.check.mistakes import Verdict
from runner.tools.check.processes import Program
from runner.tools.check.resuming import check_resume

TRAINS = """
import os, sys
import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

torch.distributed.init_process_group("gloo")
torch.manual_seed(1)
data = TensorDataset(torch.randn(64, 3), torch.randn(64, 1))
sampler = DistributedSampler(data)
loader = DataLoader(data, 8, sampler=sampler)
model = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.2), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.5)
first, batches = 0, 0
path = sys.argv[1] if len(sys.argv) > 1 else "last.pt"
if os.path.exists(path):
    kept = torch.load(path)
    model.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
    scheduler.load_state_dict(kept["scheduler"])
    first, batches = kept["epoch"], kept["batches"]
else:
    kept = None
ddp = nn.parallel.DistributedDataParallel(model)
for epoch in range(first, 4):
    sampler.set_epoch(epoch)
    for number, (x, y) in enumerate(loader):
        if epoch == first and number < batches:
            continue
        if kept and (epoch, number) == (first, batches):
            torch.set_rng_state(kept["random"])
        optimizer.zero_grad()
        nn.functional.mse_loss(ddp(x), y).backward()
        optimizer.step()
        scheduler.step()
        if number % 2 == 0 and torch.distributed.get_rank() == 0:
            kept = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
            kept.update(scheduler=scheduler.state_dict(), batches=number + 1, random=torch.get_rng_state())
            torch.save(kept, "new.pt")
            os.replace("new.pt", "last.pt")
        torch.distributed.barrier()
"""
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked")]
NO_NOISE = ("nn.Dropout(0.2)", "nn.Identity()")


def resumed(folder: Path, *changes: tuple[str, str], words: tuple[str, ...] = ()) -> Verdict:
    """Check a variant of the program; it leaves nothing behind."""
    text = TRAINS
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / "train.py").write_text(text)
    seen, program = Path(mkdtemp(dir=folder.parent)), Program([["train.py"]] * 2, folder)
    verdict = check_resume(program, 2, 300, seen, lambda _: None, words, lambda *_: 8)
    assert [path.name for path in folder.iterdir()] == ["train.py"]
    return verdict


def test_a_training_that_saves_all_goes_on_as_if_it_had_not_been_ended_with_one_process_too(tmp_path: Path) -> None:
    verdict = resumed(tmp_path, NO_NOISE)
    assert (verdict.word, verdict.findings) == ("same", [])
    assert sum("same weights" in fact for fact in verdict.facts) == 2


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("    optimizer.load_state_dict(kept", "    repr(kept", "resumed-optimizer"),
        ("    scheduler.load_state_dict(kept", "    repr(kept", "resumed-rate"),
        ("number < batches", "number < 0", "resumed-samples"),
        ("range(first, 4)", "range(first, first + 4)", "resumed-steps"),
        ('model.load_state_dict(kept["model"])', "nn.init.zeros_(model[0].weight)", "resumed-weights"),
    ],
)
def test_what_a_checkpoint_leaves_out_is_named_with_a_line(tmp_path: Path, old: str, new: str, kind: str) -> None:
    verdict = resumed(tmp_path, NO_NOISE, (old, new))
    assert verdict.word == "differs"
    assert kind in {finding.kind for finding in verdict.findings}
    assert all(finding.file == "train.py" and finding.line for finding in verdict.findings)


def test_random_numbers_that_are_drawn_otherwise_and_another_order_are_notes(tmp_path: Path) -> None:
    verdict = resumed(
        tmp_path,
        ("torch.set_rng_state", "repr"),
        ("number % 2 == 0", "number == 3"),
        ("batches=number + 1", "batches=0"),
        ('"epoch": epoch}', '"epoch": epoch + 1}'),
        ("sampler.set_epoch(epoch)", "sampler.set_epoch(epoch - first)"),
    )
    assert verdict.word == "same"
    assert {finding.kind for finding in verdict.findings} == {"resumed-noise", "resumed-order"}


def test_no_checkpoint_is_said_and_one_that_is_not_read_is_asked_for(tmp_path: Path) -> None:
    unread, unmoved = ('else "last.pt"', 'else "none.pt"'), ('os.replace("new.pt", "last.pt")', "pass")
    (none,) = resumed(tmp_path, ('torch.save(kept, "new.pt")', "pass"), unmoved).unknown
    assert "no checkpoint" in none
    asked = resumed(tmp_path, NO_NOISE, unread)
    assert any('--resume-args "--resume {checkpoint}"' in why for why in asked.unknown)
    data = resumed(
        tmp_path,
        *(NO_NOISE, unread),
        ("first, batches = 0, 0", 'torch.load(__import__("io").BytesIO(DATA)); first, batches = 0, 0'),
        ("sampler =", 'made = __import__("io").BytesIO(); torch.save(1, made); DATA = made.getvalue()\nsampler ='),
    )
    assert data.word == "unknown"
    assert resumed(tmp_path, NO_NOISE, unread, unmoved, words=("{checkpoint}",)).word == "same"
