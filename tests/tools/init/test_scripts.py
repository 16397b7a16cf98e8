"""Which script is taken, how it is started, and what a definition says of it; nothing is started here."""

from pathlib import Path

import pytest

from runner.tools.init.proposal import Proposal, propose
from runner.tools.init.trial import Reading
from tests.support.projects import Project
from tests.support.repository import commit_all

TRAINS = """
import torch

def main():
    loss = torch.zeros(1, requires_grad=True).sum()
    loss.backward()

if __name__ == "__main__":
    main()
"""
LIBRARY = TRAINS.partition("if __name__")[0]
SERVES = "import torch\nif __name__ == '__main__':\n    print(torch.ones(1))\n"
GROUP = "import torch.distributed as dist\ndist.init_process_group('gloo')\n"
PACKAGES = {"pkg/__init__.py": "", "pkg/net.py": ""}


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def look(folder: Project, files: dict[str, str], script: str | None = None) -> Proposal:
    write(folder.root, files)
    return propose(folder.root, script, None, [], [])


@pytest.mark.parametrize(
    ("files", "taken"),
    [
        ({"train.py": TRAINS, "evaluate.py": SERVES}, "train.py"),
        ({"engine.py": LIBRARY, "main.py": "import torch\nfrom engine import main\nmain()\n"}, "main.py"),
        ({"src/train.py": TRAINS, "old/v1/train.py": TRAINS, "examples/finetune.py": TRAINS}, "src/train.py"),
        ({"go.py": TRAINS, "tests/train.py": TRAINS, "build/train.py": TRAINS, ".old/train.py": TRAINS}, "go.py"),
        ({"go.py": TRAINS, "env1/pyvenv.cfg": "", "env1/lib/train.py": TRAINS, ".gitignore": "env1/"}, "go.py"),
        ({"go.py": TRAINS.replace("\n", "\r\n"), "train.py": "print 'Python 2'\nimport torch\n"}, "go.py"),
        ({"go.py": LIBRARY + "best: float = main()\n", "net.py": "DEVICE = main()\n" + LIBRARY}, "go.py"),
        ({"fit.py": "import lightning\nt = lightning.Trainer()\nt.fit(1)\n", "forest.py": "m.fit(x)\n"}, "fit.py"),
    ],
)
def test_the_script_that_trains_is_found(folder: Project, files: dict[str, str], taken: str) -> None:
    assert look(folder, files).modules.script == taken
    commit_all(folder.root)
    assert look(folder, {}).modules.script == taken


@pytest.mark.parametrize(
    ("files", "script", "program", "path"),
    [
        ({"train.py": TRAINS}, None, "train.py", ()),
        ({"src/pkg/train.py": "from .net import x\n" + TRAINS, "src/pkg/net.py": ""}, None, "pkg.train", ("src",)),
        ({"src/pkg/__init__.py": "", "src/pkg/train.py": "import pkg.net\n" + TRAINS}, None, "pkg.train", ("src",)),
        ({**PACKAGES, "pkg/cli/train.py": "from ..net import x\n" + TRAINS}, None, "pkg.cli.train", ()),
        ({**PACKAGES, "scripts/train.py": "import pkg.net\n" + TRAINS}, None, "scripts/train.py", (".",)),
        ({"src/pkg/net.py": "", "scripts/train.py": "import pkg.net\n" + TRAINS}, None, "scripts/train.py", ("src",)),
        ({"pkg/__init__.py": "", "pkg/__main__.py": "from . import net\n" + TRAINS}, "pkg", "pkg.__main__", ()),
        ({'it\'s "tr\u00e4in" #1.py': TRAINS}, None, 'it\'s "tr\u00e4in" #1.py', ()),
    ],
)
def test_a_script_is_started_as_its_imports_ask_for(
    folder: Project, tmp_path: Path, files: dict[str, str], script: str | None, program: str, path: tuple[str, ...]
) -> None:
    proposal = look(folder, files, script)
    assert (proposal.experiment(Reading(), tmp_path).program, proposal.settings.path) == (program, path)


@pytest.mark.parametrize(
    ("more", "layout"),
    [
        ("", "[1x1]"),
        (GROUP, "[1x1, 1x2]"),
        ("import transformers\nt = transformers.Trainer()\nt.train()\n", "[1x1, 1x2]"),
        ("import lightning as L\nL.Trainer(devices=1).fit(m)\n", "[1x1]"),
        (GROUP + "import torch.multiprocessing as mp\nmp.spawn(f, nprocs=2)\n", "[1x1]"),
    ],
)
def test_the_definition_says_what_the_script_does(folder: Project, tmp_path: Path, more: str, layout: str) -> None:
    proposal = look(folder, {"train.py": more + TRAINS})
    assert proposal.experiment(Reading(), tmp_path).name == "train"
    written = proposal.text(Reading())
    assert f"  layout: {layout}  # " in written
    assert ("launcher: python" in written) == ("mp.spawn" in more)
    assert "scaling" not in written  # nothing is guessed


def test_lightning_trains_with_one_process_on_a_cpu(folder: Project, tmp_path: Path) -> None:
    proposal = look(folder, {"train.py": "import lightning as L\nL.Trainer(devices='auto').fit(m)\n"})
    experiment = proposal.experiment(Reading(), tmp_path)
    for device, expected in (("cpu", [True, False]), ("cuda", [True, True])):
        assert [skip is None for _, skip in experiment.cells(device)] == expected


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("Train_Big Model.py", "train-big-model"),
        ("mnist/main.py", "mnist"),
        ("\u8bad\u7ec3.py", "train"),
        ("x" * 60 + ".py", "x" * 40),
    ],
)
def test_any_script_has_a_valid_name(folder: Project, tmp_path: Path, script: str, name: str) -> None:
    assert look(folder, {script: TRAINS}, script).experiment(Reading(), tmp_path).name == name


def test_a_project_around_the_repository_is_another_one(folder: Project) -> None:
    (folder.root / "runner.toml").touch()
    inner = folder.root / "inner"
    write(inner, {"train.py": TRAINS})
    assert propose(inner, None, None, [], []).root == folder.root
    commit_all(inner)
    assert propose(inner, None, None, [], []).root == inner
