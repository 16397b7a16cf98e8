"""What cannot become a project is refused in one line with the way out, and nothing is written."""

import os

import pytest

from tests.support.projects import RUNNER, Project, complete
from tests.tools.init.test_scripts import SERVES, TRAINS, write

HELD = {f"{name}/notes.md": "" for name in ("experiments", "runner-definitions")}


@pytest.mark.parametrize(
    ("files", "words", "said"),
    [
        ({"serve.py": SERVES}, [], "no Python file here trains and can be run; name a script: runner init path/to/"),
        ({"a.py": TRAINS, "b.py": TRAINS}, [], "2 scripts may be the training: a.py, b.py; name one: runner init a.py"),
        ({}, ["train.py"], "no Python script train.py here"),
        ({"train": TRAINS}, ["train"], "no Python script train here"),
        ({"-a.py": TRAINS, "-b.py": TRAINS}, [], "name one: runner init ./-a.py"),
        ({"train.py": "print 'x'\n"}, ["train.py"], "train.py:1 is no Python 3."),
        ({"train.py": TRAINS}, ["--name", "A B"], "such as a-b"),
        ({"train.py": TRAINS, "pyproject.toml": "[tool.runner"}, [], "pyproject.toml: not TOML"),
        ({"x\\y/train.py": TRAINS}, [], "no backslash and no line break"),
        ({"d" * 90 + "/finetune-it.py": TRAINS}, [], "100 characters at most"),
        ({"train.py": "from ..net import x\n" + TRAINS}, [], "imports from its package, which begins above"),
        ({"src/my-pkg/train.py": "from .net import x\n" + TRAINS}, [], "rename it (a program"),
        ({"src/p/train.py": "from .n import x\n" + TRAINS, "runner.toml": ""}, [], 'write path = ["src"] there first'),
        ({"train.py": TRAINS, **HELD}, [], "experiments, runner-definitions hold other things: say def"),
    ],
)
def test_it_is_one_line(folder: Project, files: dict[str, str], words: list[str], said: str) -> None:
    write(folder.root, files)
    before = folder.written()
    done = folder.runner("init", "--no-try", *words)
    assert (done.code, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.snapshot
    assert said in done.stderr
    assert folder.written() == before


def test_a_definition_that_is_there_is_never_overwritten(folder: Project) -> None:
    write(folder.root, {"train.py": TRAINS})
    assert folder.runner("init", "--no-try").code == 0
    path = folder.root / "experiments" / "train.yaml"
    path.write_text(path.read_text().replace("repeat: 3", "repeat: 7"))
    done = folder.runner("init", "--no-try")
    assert done.code == 2
    assert done.stderr.endswith("give another name, runner init --name train-2\n")
    assert "repeat: 7" in path.read_text()


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is(folder: Project) -> None:
    write(folder.root, {"train.py": TRAINS})
    # Also against root.
    limited = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    folder.root.chmod(0o555)
    done = complete([*limited, RUNNER, "init", "--no-try"], folder.root, folder.environment())
    folder.root.chmod(0o755)
    assert done.code == 2
    assert "cannot be written" in done.stderr.splitlines()[-1]
    assert folder.written() == {"train.py"}
