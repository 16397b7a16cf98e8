"""A repository that cannot become a project is refused in one line with the way out, and nothing is written."""

import pytest

from tests.support.projects import Project
from tests.tools.init.test_scripts import SERVES, TRAINS, write

HELD = {f"{name}/notes.md": "" for name in ("experiments", "runner-definitions")}


@pytest.mark.parametrize(
    ("files", "words", "said"),
    [
        ({"serve.py": SERVES}, [], "name one: runner init path/to/train.py"),
        ({"a.py": TRAINS, "b.py": TRAINS}, [], "a.py, b.py; name one: runner init a.py"),
        ({}, ["train.py"], "no Python script train.py"),
        ({"train": TRAINS}, ["train"], "no Python script train"),
        ({"-a.py": TRAINS, "-b.py": TRAINS}, [], "runner init ./-a.py"),
        ({"train.py": "print 'x'\n"}, ["train.py"], "train.py:1"),
        ({"train.py": TRAINS}, ["--name", "A B"], "a-b"),
        ({"train.py": TRAINS, "pyproject.toml": "[tool.runner"}, [], "pyproject.toml"),
        ({"x\\y/train.py": TRAINS}, [], "backslash"),
        ({"d" * 90 + "/finetune-it.py": TRAINS}, [], "100 characters"),
        ({"train.py": "from ..net import x\n" + TRAINS}, [], "package"),
        ({"src/my-pkg/train.py": "from .net import x\n" + TRAINS}, [], "rename it"),
        ({"src/p/train.py": "from .n import x\n" + TRAINS, "runner.toml": ""}, [], 'path = ["src"]'),
        ({"train.py": TRAINS, **HELD}, [], "experiments, runner-definitions"),
    ],
)
def test_a_refusal_is_one_line(folder: Project, files: dict[str, str], words: list[str], said: str) -> None:
    write(folder.root, files)
    before = folder.written()
    assert said in folder.refused("init", "--no-try", *words)
    assert folder.written() == before


def test_an_existing_definition_is_never_overwritten(folder: Project) -> None:
    write(folder.root, {"train.py": TRAINS})
    assert folder.runner("init", "--no-try").code == 0
    (path := folder.root / "experiments" / "train.yaml").write_text("mine")
    assert "--name train-2" in folder.refused("init", "--no-try")
    assert path.read_text() == "mine"
