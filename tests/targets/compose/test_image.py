"""An image is compared with the checkout by the files that it holds."""

import io
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runner.targets.compose.image import LOCK, _compare

SCRIPT = {"train.py": "x", "configs/base.txt": "1", "data/a.txt": "here", "only-here": ""}
KIT = {LOCK: "numpy", "trainkit/__init__.py": "", "experiments/mnist/ddp.py": "x", "README.md": "here"}


@pytest.mark.parametrize(
    ("project", "held", "differs"),
    [
        (SCRIPT, {"configs/base.txt": "1", "train.py": "other", "data/a.txt": "other", "made": ""}, ""),
        (SCRIPT, {"configs/base.txt": "2"}, "holds another configs/base.txt"),
        (SCRIPT, {"configs/base.txt": "22"}, "holds another configs/base.txt"),
        (KIT, {**KIT, "README.md": "other"}, ""),
        (KIT, {**KIT, "experiments/mnist/ddp.py": "other"}, "other programs"),
        (KIT, {**KIT, "experiments/mnist/more.py": ""}, "other programs"),
        (KIT, {**KIT, LOCK: "torch"}, "another requirements/runtime.lock"),
    ],
)
def test_what_a_program_may_read_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: dict[str, str], held: dict[str, str], differs: str
) -> None:
    monkeypatch.setattr("trainkit.sources.LIBRARY", tmp_path / "trainkit")
    copy = io.BytesIO()
    with tarfile.open(fileobj=copy, mode="w") as tar:
        for name, text in held.items():
            member = tarfile.TarInfo(f"workspace/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    copy.seek(0)
    for name, text in project.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    program = SimpleNamespace(folders=["trainkit", "experiments/mnist"], places=["train.py"])
    run: Any = SimpleNamespace(experiment=SimpleNamespace(root=tmp_path), cell=SimpleNamespace(program=program))
    found = _compare(copy, run)
    assert differs in found if differs else not found
