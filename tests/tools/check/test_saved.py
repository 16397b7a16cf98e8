"""What a program saves while it is checked."""

from pathlib import Path

from runner.tools.check.processes import Job, run

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


def test_a_run_leaves_no_checkpoint_for_the_next_and_the_one_that_was_there_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SAVES)
    (tmp_path / "old.pt").write_bytes(b"of a person")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "model.bin").write_bytes(b"weights")
    assert run(Job(["train.py"], tmp_path, (), 2, tmp_path / "seen"), 300) == ""
    assert (tmp_path / "old.pt").read_bytes() == b"of a person"
    assert (tmp_path / "kept" / "model.bin").read_bytes() == b"weights"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "old.pt", "seen", "train.py"]
