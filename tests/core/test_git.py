"""The one caller of git: it runs nothing that a repository names, and says what it does not know for that."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from runner.core import git as core_git
from runner.core.errors import RequestError
from runner.execution.signals import Interrupts
from runner.execution.worktrees import worktrees
from runner.records.repository import describe_repository
from runner.tools.init.git import repository
from runner.tools.proof.sources import Sources
from tests.support.hostile import arm, touch_all
from tests.support.repository import ALONE, commit_all, git


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ALONE.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with a submodule, in all of which everything names a program."""
    other, folder = tmp_path / "other", tmp_path / "a répo"
    for made in (other, folder):
        (made / "sub").mkdir(parents=True)
        for name in ("train.py", "data.y", "sub/big.z"):
            (made / name).write_text(f"{name}\n")
        (made / "requirements.lock").write_text("torch\n")
        commit_all(made)
    git(folder, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "third")
    git(folder, "commit", "--quiet", "-am", "Third")
    for place in (folder / "third", folder):
        arm(place, tmp_path / "marks")
        touch_all(place)
    return folder


def check_out(root: Path, folder: Path, diff: bytes | None = None) -> tuple[Path | None, str]:
    folder.mkdir(exist_ok=True)
    return Sources(root).check_out({"commit": core_git.commit_of(root, "HEAD")}, folder, diff)


def worktree(root: Path, folder: Path) -> None:
    with worktrees(root, Interrupts()) as trees:
        project = trees.add(head(root))
        assert (project / "train.py").read_text() == "train.py\n"
        assert describe_repository(project)[0]["commit"] == head(root)
        listed = ".gitmodules, data.y, requirements.lock, ... (5 in all)"
        assert trees.notes == [f"{head(root)[:12]}: as committed, since no filter is run: {listed}"]
    assert folder.is_dir()


def head(root: Path) -> str:
    return (root / ".git" / "refs" / "heads" / "main").read_text().strip()


def lists(root: Path, _: Path) -> None:
    found = repository(root)
    assert found.files() is not None
    assert not found.ignores("train.py")


ASKED: dict[str, Callable[[Path, Path], object]] = {
    "describe": lambda root, _: describe_repository(root),
    "check out": lambda root, folder: check_out(root, folder, b""),
    "locks": lambda root, _: Sources(root).locks({"commit": head(root)}),
    "lacks": lambda root, _: Sources(root).lacks({"commit": head(root)}),
    "names": lambda root, _: (core_git.commit_of(root, ":0:train.py"), core_git.short_name(root, head(root))),
    "lists": lists,
    "worktree": worktree,
}


def test_nothing_that_a_repository_names_is_run(root: Path, tmp_path: Path) -> None:
    for what, ask in ASKED.items():
        touch_all(root)
        (tmp_path / what).mkdir()
        ask(root, tmp_path / what)
        assert list((tmp_path / "marks").iterdir()) == [], what
    git(root, "checkout", "--quiet", ".")
    git(root, "status")
    assert {"filter.x.clean", "core.fsmonitor"} <= {path.name for path in (tmp_path / "marks").iterdir()}


def test_an_object_that_is_not_there_is_not_fetched(root: Path, tmp_path: Path) -> None:
    blob = git(root, "-c", "filter.x.clean=", "rev-parse", "HEAD:train.py").strip()
    for path in (tmp_path / "marks").iterdir():
        path.unlink()
    (root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    project, why = check_out(root, tmp_path / "out")
    assert project is None
    assert "unable to read" in why
    assert core_git.commit_of(root, "1" * 40) is None
    assert list((tmp_path / "marks").iterdir()) == []


def test_what_a_filter_makes_of_a_file_is_not_known(root: Path) -> None:
    code, diff = describe_repository(root)
    assert (code["dirty"], code["diff_sha256"], diff) == (False, None, b"")  # the same bytes need no filter
    (root / "train.py").write_text("changed\n")
    code, diff = describe_repository(root)
    assert (code["dirty"], code["diff_sha256"], diff) == (None, None, b"")
    assert code["git"] == "what differs in train.py is not known: a filter was not run"
    (root / "third" / "data.y").write_text("changed\n")
    assert "third/data.y" in describe_repository(root)[0]["git"]


def test_a_filter_without_a_program_hides_nothing(root: Path) -> None:
    (root / ".git" / "info" / "attributes").write_text("* filter=nobody-has-it\n")
    (root / "train.py").write_text("changed\n")
    code, diff = describe_repository(root)
    assert code["dirty"] is True
    assert b"+changed" in diff
    assert "git" not in code


@pytest.mark.parametrize("value", ["true", "input"])
def test_a_clean_tree_with_other_ends_of_lines_is_clean(tmp_path: Path, value: str) -> None:
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "train.py").write_bytes(b"one\r\ntwo\r\n")
    git(folder, "init", "--quiet")
    git(folder, "config", "core.autocrlf", value)
    commit_all(folder)
    touch_all(folder)
    assert describe_repository(folder)[0]["dirty"] is False
    made, _ = check_out(folder, tmp_path / "out")
    assert made is not None
    assert (made / "train.py").read_bytes() == (b"one\r\ntwo\r\n" if value == "true" else b"one\ntwo\n")


def test_a_change_in_the_moment_in_which_the_index_was_written_is_seen(root: Path) -> None:
    (root / ".git" / "info" / "attributes").unlink()
    index = root / ".git" / "index"
    git(root, "-c", "core.fsmonitor=false", "-c", "core.trustctime=false", "update-index", "--refresh")
    (root / "train.py").write_text("TRAIN.PY\n")
    os.utime(root / "train.py", (1, 1))
    os.utime(index, (1, 1))
    git_sees = describe_repository(root)[0]
    assert git_sees["dirty"] is True


def test_the_environment_names_no_other_repository(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_EXTERNAL_DIFF"):
        monkeypatch.setenv(name, str(tmp_path / "other" / ".git"))
    assert describe_repository(root)[0]["commit"] == head(root)
    assert describe_repository(tmp_path)[0] == {}


@pytest.mark.parametrize("more", ["", "\tworktree = {top}\n"])
def test_a_bare_repository_around_a_folder_is_not_asked(root: Path, tmp_path: Path, more: str) -> None:
    bare = tmp_path / "tree"
    shutil.copytree(root / ".git", bare)
    (bare / "config").write_text("[core]\n\trepositoryformatversion = 0\n" + more.format(top=bare))
    (bare / "project").mkdir()
    code, _ = describe_repository(bare / "project")
    assert list(code) == ["git"]
    assert "is a bare repository or a folder of git's own" in code["git"]


def test_a_replaced_file_is_the_one_of_the_commit(tmp_path: Path) -> None:
    folder = tmp_path / "repo"
    folder.mkdir()
    for text in ("other\n", "train.py\n"):
        (folder / "train.py").write_text(text)
        commit_all(folder)
    git(
        folder,
        "replace",
        git(folder, "rev-parse", "HEAD:train.py").strip(),
        git(folder, "rev-parse", "HEAD~:train.py").strip(),
    )
    made, _ = check_out(folder, tmp_path / "out")
    assert made is not None
    assert (made / "train.py").read_text() == "train.py\n"


@pytest.mark.parametrize("form", ["linked worktree", "split index", "sparse", "sha256", "alternates"])
def test_repositories_of_other_forms_are_read_as_git_reads_them(tmp_path: Path, form: str) -> None:
    folder = tmp_path / "repo"
    (folder / "far").mkdir(parents=True)
    (folder / "near").mkdir()
    for name in ("far/a.py", "near/b.py", "c.py"):
        (folder / name).write_text(name)
    if form == "sha256":
        git(folder, "init", "--quiet", "--object-format=sha256")
    commit_all(folder)
    if form == "linked worktree":
        git(folder, "worktree", "add", "--quiet", str(tmp_path / "linked"))
        folder = tmp_path / "linked"
    elif form == "split index":
        git(folder, "update-index", "--split-index")
    elif form == "sparse":
        git(folder, "sparse-checkout", "set", "near")
        assert not (folder / "far").exists()
    elif form == "alternates":
        git(tmp_path, "clone", "--quiet", "--shared", str(folder), str(tmp_path / "shared"))
        git(tmp_path, "clone", "--quiet", "--shared", str(tmp_path / "shared"), str(tmp_path / "of it"))
        folder = tmp_path / "of it"
    code, _ = describe_repository(folder)
    assert (code["dirty"], code["commit"]) == (False, git(folder, "rev-parse", "HEAD").strip())
    made, why = check_out(folder, tmp_path / "out")
    assert why == ""
    assert made is not None
    assert (made / "far" / "a.py").read_text() == "far/a.py"
    (folder / "near" / "b.py").write_text("changed")
    code, diff = describe_repository(folder)
    assert code["dirty"] is True
    assert b"near/b.py" in diff


def test_an_index_that_is_a_link_is_not_followed(root: Path, tmp_path: Path) -> None:
    (root / ".git" / "index").rename(tmp_path / "index")
    (root / ".git" / "index").symlink_to("/dev/zero")
    found = core_git.find(root)
    assert found is not None
    with pytest.raises(core_git.GitError, match="git cannot be asked: "), replace(found, folder=root).view():
        pass


def test_a_project_behind_a_link_is_not_followed(tmp_path: Path) -> None:
    victim, root = tmp_path / "victim", tmp_path / "repository" / "sub"
    (victim / "data").mkdir(parents=True)
    root.mkdir(parents=True)
    (root / "runner.toml").touch()
    git(root.parent, "init", "-q")
    commit_all(root.parent)
    shutil.rmtree(root)
    root.symlink_to(victim)
    commit_all(root.parent)
    commit = git(root.parent, "rev-parse", "HEAD").strip()
    root.unlink()
    root.mkdir()
    (tmp_path / "scratch").mkdir()
    found, why = Sources(root).check_out({"commit": commit}, tmp_path / "scratch", None)
    assert (found, why) == (None, "has no folder sub/, or one behind a link")
    with worktrees(root, Interrupts()) as trees, pytest.raises(RequestError, match="one behind a link"):
        trees.add(commit)
    assert list(victim.iterdir()) == [victim / "data"]
