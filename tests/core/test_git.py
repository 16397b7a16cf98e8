"""Reading a repository starts no hook or file monitor, and changes nothing in it."""

import os
from pathlib import Path

import pytest

from runner.core import git as core_git
from runner.core.errors import RequestError, RunError
from runner.execution.signals import Interrupts
from runner.execution.worktrees import worktrees
from runner.records.provenance import describe_repository
from runner.tools.proof.checkouts import Sources
from tests.support.repository import ALONE, commit_all, git


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ALONE:
        monkeypatch.setenv(name, os.devnull)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Create a repository whose hooks and file monitor leave marks."""
    folder, marks = tmp_path / "a répo", tmp_path / "marks"
    for made in (folder, marks):
        made.mkdir()
    (folder / "train.py").write_text("train\n")
    commit_all(folder)
    hooks = folder / ".git" / "hooks"
    for name in ("post-checkout", "post-index-change", "monitor"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch '{marks}/{name}'\n")
        (hooks / name).chmod(0o755)
    git(folder, "config", "core.fsmonitor", str(hooks / "monitor"))
    return folder


def head(root: Path) -> str:
    return git(root, "rev-parse", "HEAD").strip()


def check_out(root: Path, folder: Path, diff: bytes | None = None) -> Path:
    folder.mkdir()
    made, left_out = Sources(root).check_out({"commit": head(root)}, folder, diff)
    assert left_out == []
    return made


def test_no_question_runs_a_hook_or_a_monitor_and_the_repository_stays_as_it_is(root: Path, tmp_path: Path) -> None:
    os.utime(root / "train.py", (1, 1))
    commit = (root / ".git/refs/heads/main").read_text().strip()
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert describe_repository(root)[0]["dirty"] is False
    assert (check_out(root, tmp_path / "out") / "train.py").read_text() == "train\n"
    assert core_git.commit_of(root, core_git.short_name(root, commit)) == commit
    assert core_git.commit_of(root, "1" * 40) is core_git.commit_of(root, "--all") is None
    with worktrees(root, Interrupts()) as add:
        project = add(commit)
        assert (project / "train.py").read_text() == "train\n"
        assert describe_repository(project)[0] == {"commit": commit, "dirty": False, "diff_sha256": None}
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    assert [*(tmp_path / "marks").iterdir()] == []
    git(root, "status")
    assert [*(tmp_path / "marks").iterdir()] != []


def test_a_clean_tree_with_other_ends_of_lines_is_clean(root: Path, tmp_path: Path) -> None:
    (root / "train.py").write_bytes(b"one\r\ntwo\r\n")
    git(root, "config", "core.autocrlf", "true")
    commit_all(root)
    os.utime(root / "train.py", (1, 1))
    assert describe_repository(root)[0]["dirty"] is False
    assert (check_out(root, tmp_path / "out") / "train.py").read_bytes() == b"one\r\ntwo\r\n"


def test_an_untracked_file_is_a_difference_and_the_environment_names_no_other_repository(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = head(root)
    (root / "new.py").touch()
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(tmp_path / "other" / ".git"))
    assert describe_repository(root) == ({"commit": commit, "dirty": True, "diff_sha256": None}, b"")
    assert describe_repository(tmp_path)[0] == {}
    code, _ = describe_repository(root / ".git")  # like a bare repository
    assert [*code] == ["git"]
    assert "work tree" in code["git"]


@pytest.mark.parametrize("form", ["linked worktree", "sparse", "sha256"])
def test_repositories_of_other_forms_are_read_as_git_reads_them(tmp_path: Path, form: str) -> None:
    folder = tmp_path / "repo"
    for name in ("far/a.py", "near/b.py"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(name)
    if form == "sha256":
        git(folder, "init", "--quiet", "--object-format=sha256")
    commit_all(folder)
    if form == "linked worktree":
        git(folder, "worktree", "add", "--quiet", str(tmp_path / "linked"))
        folder = tmp_path / "linked"
    elif form == "sparse":
        git(folder, "sparse-checkout", "set", "near")
    assert describe_repository(folder)[0] == {"commit": head(folder), "dirty": False, "diff_sha256": None}
    (folder / "near" / "b.py").write_text("changed")
    made = check_out(folder, tmp_path / "out", describe_repository(folder)[1])
    assert [(made / name).read_text() for name in ("far/a.py", "near/b.py")] == ["far/a.py", "changed"]
    with worktrees(folder, Interrupts()) as add:
        assert (add(head(folder)) / "far" / "a.py").read_text() == "far/a.py"


def test_a_submodule_is_said_to_be_left_out(root: Path, tmp_path: Path) -> None:
    git(root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(root), "third")
    commit_all(root)
    (tmp_path / "out").mkdir()
    _, (note,) = Sources(root).check_out({"commit": head(root)}, tmp_path / "out", None)
    assert note.startswith("third: ")


def test_a_commit_that_lacks_the_project_is_refused(root: Path, tmp_path: Path) -> None:
    (root / "later").mkdir()
    (tmp_path / "out").mkdir()
    with pytest.raises(RunError, match="has no folder later"):
        Sources(root / "later").check_out({"commit": head(root), "prefix": "later/"}, tmp_path / "out", None)
    with worktrees(root / "later", Interrupts()) as add, pytest.raises(RequestError, match="later"):
        add(head(root))
