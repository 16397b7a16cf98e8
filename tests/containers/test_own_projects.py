"""A foreign repository runs in its own image, with the kit installed from the wheel."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.support.containers import left_of
from tests.support.installed import Installed
from tests.support.projects import ROOT, WEIRD, Ended
from tests.support.repository import commit_all
from tests.tools.init.conftest import REPOSITORIES

# One image for all: one worker builds it.
pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("own-image")]

IMAGE = "kit-test-own:cpu"
SAVES = """
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
layer = torch.nn.Linear(2, 2)
for epoch in range(1, 3):
    os.makedirs("checkpoints", exist_ok=True)
    torch.save(layer.state_dict(), f"checkpoints/rank{rank}-{epoch}.pt")
    print(f"Epoch {epoch}/2, Loss: {float(open('configs/base.txt').read())}")
os.makedirs("data", exist_ok=True)
with open(f"data/fetched-{rank}.txt", "w") as file:
    file.write("kept")
try:
    open("saves.py", "a")
except OSError as error:
    print(f"the source is {error.strerror}; there are {sorted(os.listdir('checkpoints'))}")
dist.barrier()  # or a rank ends while another still connects to it
dist.destroy_process_group()
"""
DEFINITION = """name: {name}
summary: s
program: {program}
dialect: epoch-losses
scaling: weak
matrix: {{layout: [1x2]}}
repeat: 1
timeout_seconds: 600
"""


@dataclass
class Own:
    """A repository outside this checkout, and the installed wheel."""

    root: Path
    installed: Installed

    def run(self, name: str, program: str) -> tuple[Ended, dict[str, Any], Path]:
        """Run a program in a container; return the command's end, the record, and the run's folder."""
        (self.root / "experiments" / f"{name}.yaml").write_text(DEFINITION.format(name=name, program=program))
        words = f"runner run {name} --on compose --layout 1x2 --device cpu --repeat 1"
        done = self.installed.run(self.root, *words.split())
        (folder,) = (path.parent for path in self.root.glob(f"results/{name}/*/run.json"))
        assert left_of(folder) == []
        assert done.code == 0, done.snapshot + "".join(path.read_text() for path in folder.glob("raw/*.stderr"))
        return done, json.loads((folder / "run.json").read_text()), folder


@pytest.fixture(scope="module")
def own(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Own]:
    """Make a src-layout package with the Dockerfile of docs/containers.md, and a script."""
    root = tmp_path_factory.mktemp("own") / WEIRD / "kit test own"
    shutil.copytree(REPOSITORIES / "src_layout", root, ignore=shutil.ignore_patterns("__pycache__"))
    shown = (ROOT / "docs" / "containers.md").read_text("utf-8")
    for name in ("containers", "configs", "data", "experiments"):
        (root / name).mkdir()
    shutil.copy(installed.wheel, root / "containers")
    files = {
        "Dockerfile": shown.partition("```dockerfile\n")[2].partition("```")[0],
        ".dockerignore": "**/.*\nresults\ndata\n",
        "requirements.txt": f"torch\nscikit-learn=={version('scikit-learn')}\n",
        "runner.toml": 'image = "kit-test-own"\npath = ["src"]\n',
        "saves.py": SAVES,
        "configs/base.txt": "0.5\n",
    }
    for name, text in files.items():
        (root / name).write_text(text)
    commit_all(root)
    remove = ["docker", "image", "rm", "--force", IMAGE]
    subprocess.run(remove, capture_output=True, check=False)  # left by interrupted tests
    yield Own(root, installed)
    subprocess.run(remove, capture_output=True, check=False)


def test_a_package_runs_in_an_image_of_its_own(own: Own) -> None:
    done, record, _ = own.run("train", "spirals.train")
    assert f"{IMAGE} is missing" in done.stderr
    assert (record["status"], len(record["epochs"])) == ("completed", 3)
    assert [rank["observed"]["samples"] for rank in record["ranks"]] == [3 * 1024] * 2
    assert record["launch"]["image"]["name"] == IMAGE


def test_a_changed_script_writes_beside_itself_and_its_sources_stay(own: Own) -> None:
    text = (own.root / "saves.py").read_text()
    (own.root / "saves.py").write_text(text.replace("range(1, 3)", "range(1, 4)").replace("/2,", "/3,"))
    done, _, folder = own.run("saves", "saves.py")
    assert "building" not in done.stderr
    printed = (folder / "raw/node0-rank0.stdout").read_text()
    assert "Epoch 3/3, Loss: 0.5\n" in printed
    assert "the source is Read-only file system" in printed
    assert "rank0-1.pt" in printed
    assert not (own.root / "checkpoints").exists()
    assert [path.stat().st_uid for path in (own.root / "data").glob("fetched-*.txt")] == [os.getuid()] * 2
