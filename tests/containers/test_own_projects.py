"""A repository of other people in containers of its own, by the wheel: its image, its runs, and what they write."""

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

from tests.support.containers import inspected, left_of
from tests.support.installed import Installed
from tests.support.projects import ROOT, WEIRD, Ended
from tests.support.repository import commit_all
from tests.tools.init.conftest import REPOSITORIES

# One image for all: one worker builds it.
pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("own-image")]

IMAGE = "kit-test-own:cpu"
SAVES = """
import argparse, os
import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--config", default="configs/base.txt")
args = parser.parse_args()
dist.init_process_group("gloo")
rank = dist.get_rank()
layer = torch.nn.Linear(2, 2)
for epoch in range(1, 3):
    os.makedirs("checkpoints", exist_ok=True)
    torch.save(layer.state_dict(), f"checkpoints/rank{rank}-{epoch}.pt")
    print(f"Epoch {epoch}/2, Loss: {float(open(args.config).read())}")
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
    """A repository outside of this checkout, and the command `runner` of the wheel."""

    root: Path
    installed: Installed

    def runner(self, *words: str) -> Ended:
        return self.installed.run(self.root, "runner", *words)

    def define(self, name: str, program: str) -> None:
        text = DEFINITION.format(name=name, program=program)
        (self.root / "experiments" / f"{name}.yaml").write_text(text)

    def run(self, name: str) -> tuple[Ended, dict[str, Any], Path]:
        """Run one cell in a container; the command's end, the record, and its folder."""
        done = self.runner("run", name, "--on", "compose", "--layout", "1x2", "--device", "cpu", "--repeat", "1")
        (folder,) = (path.parent for path in self.root.glob(f"results/{name}/*/run.json"))
        assert left_of(folder) == []
        assert done.code == 0, done.snapshot + "".join(path.read_text() for path in folder.glob("raw/*.stderr"))
        return done, json.loads((folder / "run.json").read_text()), folder


@pytest.fixture(scope="module")
def own(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Own]:
    """A src-layout package with the Dockerfile of the page, and scripts beside it."""
    root = tmp_path_factory.mktemp("own") / WEIRD / "kit test own"
    shutil.copytree(REPOSITORIES / "src_layout", root, ignore=shutil.ignore_patterns("__pycache__"))
    shown = (ROOT / "docs" / "containers.md").read_text("utf-8")
    (root / "Dockerfile").write_text(shown.partition("```dockerfile\n")[2].partition("```")[0])
    (root / ".dockerignore").write_text("**/.*\nresults\ndata\n")
    (root / "requirements.txt").write_text(f"torch\nscikit-learn=={version('scikit-learn')}\n")
    (root / "containers").mkdir()
    shutil.copy(installed.wheel, root / "containers")
    (root / "runner.toml").write_text('image = "kit-test-own"\npath = ["src"]\n')
    (root / "saves.py").write_text(SAVES)
    (root / "configs").mkdir()
    (root / "configs" / "base.txt").write_text("0.5\n")
    (root / "data").mkdir()
    (root / "experiments").mkdir()
    commit_all(root)
    made = Own(root, installed)
    made.define("train", "spirals.train")
    made.define("saves", "saves.py")
    remove = ["docker", "image", "rm", "--force", IMAGE]
    subprocess.run(remove, capture_output=True, check=False)  # that of tests that were cut off
    yield made
    subprocess.run(remove, capture_output=True, check=False)


def test_a_package_runs_in_an_image_of_its_own(own: Own) -> None:
    done, record, _ = own.run("train")
    assert f"the image {IMAGE} is missing: building it" in done.stderr
    assert record["status"] == "completed"
    assert len(record["epochs"]) == 3
    assert [rank["observed"]["samples"] for rank in record["ranks"]] == [3 * 1024] * 2
    assert record["launch"]["image"]["name"] == IMAGE
    if base := os.environ.get("CPU_BASE_IMAGE"):
        assert record["launch"]["image"]["base"]["id"] == inspected(base, "{{json .Id}}")


def test_a_changed_script_writes_beside_itself_and_its_sources_stay(own: Own) -> None:
    text = (own.root / "saves.py").read_text()
    (own.root / "saves.py").write_text(text.replace("range(1, 3)", "range(1, 4)").replace("/2,", "/3,"))
    done, _, folder = own.run("saves")
    assert "building it" not in done.stderr
    printed = (folder / "raw" / "node0-rank0.stdout").read_text()
    assert "Epoch 3/3, Loss: 0.5\n" in printed
    assert "the source is Read-only file system" in printed
    assert "rank0-1.pt" in printed
    assert not (own.root / "checkpoints").exists()
    assert [path.stat().st_uid for path in (own.root / "data").glob("fetched-*.txt")] == [os.getuid()] * 2


def test_a_changed_file_that_only_the_image_holds_makes_the_image_anew(own: Own) -> None:
    before = inspected(IMAGE, "{{json .Id}}")
    (own.root / "configs" / "base.txt").write_text("0.25\n")
    own.define("changed-config", "saves.py")
    done, _, folder = own.run("changed-config")
    assert f"the image {IMAGE} holds another configs/base.txt than this checkout: building it" in done.stderr
    assert "Loss: 0.25\n" in (folder / "raw" / "node0-rank0.stdout").read_text()
    assert inspected(IMAGE, "{{json .Id}}") != before
