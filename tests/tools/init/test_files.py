"""The files that are written, and those that stay as they are."""

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
    assert folder.runner("plan", done.stdout.splitlines()[-2].rpartition(" ")[2]).code == 0


def test_settings_definition_and_results_are_new_files_and_no_other_file_changes(folder: Project) -> None:
    write(folder.root, {**SRC, "pyproject.toml": "[project]\nname = 'a'", ".gitignore": "*.pt\n"})
    commit_all(folder.root)
    init(folder)
    settings = nearest(folder.root)
    assert settings
    assert (settings.path, settings.definitions) == (("src",), "experiments")
    status = git(folder.root, "status", "--porcelain", "--untracked-files=all").splitlines()
    assert sorted(status) == ["?? experiments/train.yaml", "?? runner.toml"]


def test_a_second_definition_leaves_the_settings_as_they_are(folder: Project) -> None:
    write(folder.root, {"train.py": TRAINS, "finetune.py": TRAINS, "runner.toml": "# mine\n"})
    for script in ("train", "finetune"):
        init(folder, f"{script}.py")
        assert (folder.root / "experiments" / f"{script}.yaml").is_file()
    assert (folder.root / "runner.toml").read_text() == "# mine\n"


@pytest.mark.parametrize(
    ("name", "text", "definitions"),
    [("hydra", "lr: 0.1\n", "runner-definitions"), ("own", "program: a\nmatrix: {}\n", "experiments")],
)
def test_definitions_share_no_folder_with_other_files(folder: Project, name: str, text: str, definitions: str) -> None:
    write(folder.root, {"train.py": TRAINS, f"experiments/{name}.yaml": text})
    init(folder)
    assert (folder.root / definitions / "train.yaml").is_file()
    assert f'definitions = "{definitions}"' in (folder.root / "runner.toml").read_text()


def test_a_dry_run_shows_the_files_and_writes_nothing(folder: Project) -> None:
    write(folder.root, SRC)
    before = folder.written()
    done = folder.runner("init", "--dry-run")
    assert (done.code, folder.written()) == (0, before)
    assert "program: pkg.train" in done.stdout
    assert "# runner.toml" in done.stdout
    assert "nothing was written" in done.stderr
