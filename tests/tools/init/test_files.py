"""Which files are written, and what becomes of those that are there."""

from pathlib import Path

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


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
@pytest.mark.parametrize("bom", ["", "\ufeff"], ids=["plain", "BOM"])
def test_settings_are_appended_to_a_pyproject_with_its_own_line_ends(folder: Project, end: str, bom: str) -> None:
    before = f'{bom}[project]{end}name = "a"  # no line end after it'
    write(folder.root, {**SRC, "pyproject.toml": before, ".gitignore": f"*.pt{end}"})
    commit_all(folder.root)
    init(folder)
    after = (folder.root / "pyproject.toml").read_bytes().decode()
    assert after.startswith(before + end)
    assert after.count("\n") == after.count(end)
    assert (folder.root / ".gitignore").read_bytes().decode() == f"*.pt{end}results/{end}reproduced/{end}"
    settings = nearest(folder.root)
    assert settings
    assert (settings.path, settings.definitions, settings.source) == (
        ("src",),
        "experiments",
        folder.root / "pyproject.toml",
    )


def test_a_pyproject_that_takes_no_table_is_left_alone(folder: Project) -> None:
    write(folder.root, {"train.py": TRAINS, "pyproject.toml": "tool = {black = {line-length = 100}}\n"})
    init(folder)
    assert (folder.root / "pyproject.toml").read_text() == "tool = {black = {line-length = 100}}\n"
    assert (folder.root / "runner.toml").is_file()


def test_a_second_definition_leaves_the_settings_as_they_are(folder: Project) -> None:
    write(folder.root, {"train.py": TRAINS, "finetune.py": TRAINS, "pyproject.toml": ""})
    init(folder, "train.py")
    before = (folder.root / "pyproject.toml").read_bytes()
    init(folder, "finetune.py")
    assert (folder.root / "pyproject.toml").read_bytes() == before
    assert sorted(path.name for path in (folder.root / "experiments").iterdir()) == ["finetune.yaml", "train.yaml"]


@pytest.mark.parametrize(
    ("files", "definitions"),
    [
        ({"experiments/notes.md": ""}, "runs"),
        ({"experiments/hydra.yaml": "lr: 0.1\n"}, "runs"),
        ({"experiments.py": ""}, "runs"),
        ({"experiments/a.py": "", "runs/events.out.tfevents.1": ""}, "runner-definitions"),
        ({"experiments/a.py": "", ".gitignore": "runs/\n"}, "runner-definitions"),
    ],
    ids=["notes", "hydra", "module", "tensorboard", "ignored"],
)
def test_definitions_go_where_nothing_else_is(folder: Project, files: dict[str, str], definitions: str) -> None:
    write(folder.root, {"train.py": TRAINS, **files})
    commit_all(folder.root)
    init(folder)
    assert (folder.root / definitions / "train.yaml").is_file()
    assert f'definitions = "{definitions}"' in (folder.root / "runner.toml").read_text()
    assert "train" in folder.runner("list").stdout


@pytest.mark.parametrize(
    ("ignored", "more", "why", "line"),
    [
        ("*.yaml\n", [], "git ignores experiments/*.yaml and runs/*.yaml and runner-definitions/*.yaml", "experiments"),
        ("*.yaml\n", ["experiments"], "experiments holds other things, and git ignores runs/*.yaml", "runs"),
        ("*.yaml\nruns/\nexperiments\n", [], "git ignores experiments/*.yaml and runs/*.yaml", "runner-definitions"),
    ],
    ids=["all", "held", "folders"],
)
def test_definitions_that_git_ignores_everywhere_are_refused_with_the_line_that_keeps_them(
    folder: Project, ignored: str, more: list[str], why: str, line: str
) -> None:
    write(folder.root, {"train.py": TRAINS, ".gitignore": ignored, **{f"{name}/notes.md": "" for name in more}})
    commit_all(folder.root)
    done = folder.runner("init", "--no-try")
    assert done.code == 2
    assert done.stderr.startswith(f"error: {why}")
    way_out = done.stderr.partition(": add the line ")[2]
    assert way_out == f"!/{line}/*.yaml to {folder.root / '.gitignore'}\n"
    (folder.root / ".gitignore").write_text(ignored + way_out.partition(" ")[0])
    init(folder)
    assert f"{line}/train.yaml" in git(folder.root, "ls-files", "--others", "--exclude-standard").splitlines()


@pytest.mark.parametrize("line", ["results", "/results/", "res*"])
def test_results_that_are_ignored_already_get_no_line(folder: Project, line: str) -> None:
    write(folder.root, {"train.py": TRAINS, ".gitignore": line})
    commit_all(folder.root)
    init(folder)
    assert (folder.root / ".gitignore").read_text() == line


def test_without_git_there_is_no_gitignore(folder: Project) -> None:
    write(folder.root, {"train.py": TRAINS})
    init(folder)
    assert folder.written() == {"train.py", "runner.toml", "experiments", "experiments/train.yaml"}


def test_a_dry_run_shows_a_diff_that_git_can_apply_and_writes_nothing(folder: Project) -> None:
    write(folder.root, {**SRC, "pyproject.toml": "[project]\nname = 'a'", ".gitignore": "*.pt\n"})
    commit_all(folder.root)
    before = folder.written()
    done = folder.runner("init", "--dry-run")
    assert done.code == 0
    assert folder.written() == before
    assert git(folder.root, "status", "--porcelain") == ""
    assert "chosen by a first run" in done.stderr
    (folder.root.parent / "init.patch").write_text(done.stdout)
    git(folder.root, "apply", str(folder.root.parent / "init.patch"))
    applied = {path: (folder.root / path).read_bytes() for path in git(folder.root, "ls-files", "-mo").split()}
    git(folder.root, "checkout", "-q", ".")
    git(folder.root, "clean", "-fdq")
    init(folder)
    assert {path: (folder.root / path).read_bytes() for path in applied} == applied


@pytest.mark.parametrize("place", ["experiments", ".gitignore"])
def test_nothing_is_written_through_a_linked_folder(folder: Project, tmp_path: Path, place: str) -> None:
    write(folder.root, {"train.py": TRAINS, "requirements.txt": "torch==2.3.1\n"})
    commit_all(folder.root)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (folder.root / place).symlink_to(elsewhere)
    before = folder.written()
    done = folder.runner("init", "--no-try")
    said = "it" if place == ".gitignore" else f"'{place}'"
    assert (done.code, f"{said} is a link, and links are not followed" in done.stderr) == (2, True), done.snapshot
    assert (folder.written(), list(elsewhere.iterdir())) == (before, [])
