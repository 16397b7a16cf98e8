"""Which files are written, and what becomes of those that are there."""

import pytest

from runner.definitions.settings import nearest
from tests.support.projects import Project
from tests.support.repository import commit_all, git
from tests.tools.init.test_scripts import TRAINS, write

SRC = {"src/pkg/net.py": "", "src/pkg/train.py": "from .net import x\n" + TRAINS}


def init(folder: Project, *words: str) -> None:
    """Write the files without a run; the definition can be planned at once."""
    done = folder.runner("init", "--no-try", *words)
    assert done.code == 0, done.snapshot
    planned = folder.runner("plan", done.stdout.splitlines()[-2].rpartition(" ")[2])
    assert planned.code == 0, planned.snapshot


def test_settings_definition_and_results_are_new_files_and_nothing_that_is_there_is_changed(folder: Project) -> None:
    write(folder.root, {**SRC, "pyproject.toml": "[project]\nname = 'a'", ".gitignore": "*.pt\n"})
    commit_all(folder.root)
    init(folder)
    settings = nearest(folder.root)
    assert settings
    assert (settings.path, settings.definitions, settings.source) == (
        ("src",),
        "experiments",
        folder.root / "runner.toml",
    )
    status = git(folder.root, "status", "--porcelain", "--untracked-files=all").splitlines()
    assert sorted(status) == ["?? experiments/train.yaml", "?? runner.toml"]


def test_a_second_definition_leaves_the_settings_as_they_are(folder: Project) -> None:
    write(folder.root, {"train.py": TRAINS, "finetune.py": TRAINS, "runner.toml": "# mine\n"})
    for script in ("train", "finetune"):
        init(folder, f"{script}.py")
    assert (folder.root / "runner.toml").read_text() == "# mine\n"
    assert sorted(path.name for path in (folder.root / "experiments").iterdir()) == ["finetune.yaml", "train.yaml"]


@pytest.mark.parametrize(
    ("files", "definitions"),
    [
        ({"experiments/hydra.yaml": "lr: 0.1\n"}, "runner-definitions"),
        ({"experiments/own.yaml": "program: a\nmatrix: {}\n"}, "experiments"),
    ],
)
def test_definitions_go_where_nothing_else_is(folder: Project, files: dict[str, str], definitions: str) -> None:
    write(folder.root, {"train.py": TRAINS, **files})
    init(folder)
    assert (folder.root / definitions / "train.yaml").is_file()
    assert f'definitions = "{definitions}"' in (folder.root / "runner.toml").read_text()


def test_a_dry_run_shows_what_would_be_written_and_writes_nothing(folder: Project) -> None:
    write(folder.root, SRC)
    before = folder.written()
    done = folder.runner("init", "--dry-run")
    assert (done.code, folder.written()) == (0, before)
    assert "program: pkg.train" in done.stdout
    assert "# runner.toml" in done.stdout
    assert "chosen by a first run" in done.stderr
