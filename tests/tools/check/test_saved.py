"""What a program saves while it is checked."""

from pathlib import Path

from runner.tools.check.processes import Job, run

SAVES = """
import torch
for name in ("new.pt", "old.pt"):
    torch.save(1, name)
    assert torch.load(name) == 1
"""


def test_a_run_leaves_no_checkpoint_for_the_next_and_the_one_that_was_there_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SAVES)
    (tmp_path / "old.pt").write_bytes(b"of a person")
    ended = run(Job(["train.py"], tmp_path, (), 2, tmp_path / "seen"), 300)
    assert ended.failure == ""
    assert (tmp_path / "old.pt").read_bytes() == b"of a person"
    assert not (tmp_path / "new.pt").exists()
