"""An image is compared with the checkout by its files."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runner.targets.compose.image import LOCK, _compare
from tests.support.archives import folder, tar

SCRIPT = {"train.py": "x", "configs/base.txt": "1", "data/a.txt": "here", "only-here": ""}
KIT = {LOCK: "numpy", "trainkit/__init__.py": "", "experiments/mnist/ddp.py": "x", "README.md": "here"}


@pytest.mark.parametrize(
    ("project", "held", "differs"),
    [
        (SCRIPT, {"configs/base.txt": "1", "train.py": "other", "data/a.txt": "other", "made": ""}, ""),
        (SCRIPT, {"configs/base.txt": "2"}, "holds another configs/base.txt"),
        (KIT, {**KIT, "README.md": "other"}, ""),
        (KIT, {**KIT, "experiments/mnist/ddp.py": "other"}, "other programs"),
        (KIT, {**KIT, "experiments/mnist/more.py": ""}, "other programs"),
        (KIT, {**KIT, LOCK: "torch"}, "another requirements/runtime.lock"),
    ],
)
def test_what_a_program_may_read_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: dict[str, str], held: dict[str, str], differs: str
) -> None:
    monkeypatch.setattr("trainkit.sources.LIBRARY", tmp_path / "source" / "trainkit")
    copy = tar(*((f"workspace/{name}", text.encode()) for name, text in held.items()), mode="w")
    root = folder(tmp_path, {name: text.encode() for name, text in project.items()})
    program = SimpleNamespace(folders=["trainkit", "experiments/mnist"], places=["train.py"])
    run: Any = SimpleNamespace(experiment=SimpleNamespace(root=root), cell=SimpleNamespace(program=program))
    found = _compare(io.BytesIO(copy), run)
    assert differs in found if differs else not found
