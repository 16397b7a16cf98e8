"""The root of a project is found, and its settings are read."""

from pathlib import Path

import pytest

from runner.core.errors import RequestError
from runner.definitions import program
from runner.definitions.settings import Settings, find_project, settings_of
from tests.support.projects import Project

WHOLE = """
[tool.runner]
definitions = "runs"
path = ["src", "lib/python"]
image = "registry.lab:5000/team/train"
dockerfile = "docker/train.Dockerfile"
code = ["configs/*.yaml"]

[tool.runner.with.compose]
memory = "8gb"

[tool.runner.with.kubernetes]
namespace = "ml"
"""


def marked(folder: Path, text: str = "", name: str = "runner.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, "utf-8")
    return folder


def test_every_setting_is_read_from_pyproject_and_from_a_file_of_its_own(tmp_path: Path) -> None:
    shared = settings_of(marked(tmp_path / "shared", WHOLE, "pyproject.toml"))
    text = WHOLE.replace("[tool.runner]\n", "").replace("[tool.runner.", "[")
    own = settings_of(marked(tmp_path / "own", text))
    image, dockerfile, code = "registry.lab:5000/team/train", "docker/train.Dockerfile", ("configs/*.yaml",)
    options = {"compose": {"memory": "8gb"}, "kubernetes": {"namespace": "ml"}}
    for read in (shared, own):
        path = ("src", "lib/python")
        assert read == Settings(read.root, read.source, "runs", path, image, dockerfile, code, options)
    assert settings_of(tmp_path) == Settings(tmp_path)


def test_the_nearest_project_wins_and_a_mere_folder_of_a_parent_is_none(tmp_path: Path) -> None:
    outer = marked(tmp_path / "monorepo")
    inner = marked(outer / "teams" / "vision", "[tool.runner]\n", "pyproject.toml")
    (outer / "teams" / "experiments").mkdir()
    marked(outer / "teams", "[tool.black]\n# no runner here\n", "pyproject.toml")
    (inner / "src" / "deep").mkdir(parents=True)
    assert find_project(inner / "src" / "deep").root == inner
    assert find_project(outer / "teams").root == outer
    (tmp_path / "experiments").mkdir()
    with pytest.raises(RequestError, match="runner init"):
        find_project(tmp_path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("imgae = 'x'\n", "runner.toml:1: unknown key 'imgae'; did you mean 'image'?"),
        ("\n\npath = 7\n", "runner.toml:3: 'path' has to be a list"),
        ("definitions = '../other'\n", "runner.toml:1: 'definitions' has to be a path"),
        ("image = 'Our Image'\n", "runner.toml:1: 'image' has to be the name"),
        ("[with.compose]\nmemory = []\n", "runner.toml:2: 'memory' has"),
        ("path = [\n", "runner.toml: not TOML: "),
    ],
)
def test_a_wrong_setting_is_one_line_with_its_place(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(RequestError) as error:
        find_project(marked(tmp_path, text))
    assert str(error.value).startswith(f"{tmp_path}/{why}")
    assert "\n" not in str(error.value)


def test_programs_are_found_in_the_folders_of_import_packages(project: Project) -> None:
    root = project.root
    marked(root, "path = ['src']\ncode = ['configs/*.yaml']\n")
    marked(root / "src" / "theirs", "from theirs.model import net\n", "train.py")
    marked(root / "src" / "theirs", "", "model.py")
    marked(root / "configs", "lr: 1\n", "base.yaml")
    found = program.find(root, "theirs.train")
    assert found.words == ["-m", "theirs.train"]
    assert found.files == ("configs/base.yaml", "src/theirs/model.py", "src/theirs/train.py")
    assert found.places == ["configs", "src"]
    assert found.sources(root)["configs/base.yaml"] == b"lr: 1\n"  # part of the code's identity


def test_a_pattern_of_code_that_means_no_file_is_refused(tmp_path: Path) -> None:
    for pattern in ("nothing/*.yaml", "configs/**.yaml", "."):
        with pytest.raises(RequestError, match="matches no file"):
            settings_of(marked(tmp_path, f"code = '{pattern}'\n")).code_files()


def test_the_settings_options_hold_unless_the_command_line_says_otherwise(project: Project) -> None:
    words = ("run", "tiny", "--on", "compose", "--dry-run")
    marked(project.root, "[with.compose]\nmemory = '3gb'\nshm_size = '2gb'\n")
    shown = project.runner(*words, "--with", "memory=5gb").stdout.replace('"', "")
    assert [line in shown for line in ("mem_limit: 5gb", "shm_size: 2gb")] == [True, True]
    marked(project.root, "[with.compose]\nmemroy = '3gb'\n")
    assert "'memroy'; did you mean 'memory'" in project.refused(*words)
