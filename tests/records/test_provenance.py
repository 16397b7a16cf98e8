"""What a record says of its machine and repository: whatever the settings of git are, nothing that git did not say."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from runner.core import git as core_git
from runner.records import provenance
from runner.records.provenance import LARGEST_DIFF, describe_repository
from runner.tools.proof.checkouts import Sources
from tests.support.repository import commit_all, git


def test_gpus_are_those_that_may_be_used_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "_all_gpus", lambda: ["first", "second"])
    for visible, names in {"1,0": ["second", "first"], "2,GPU-7": ["2", "GPU-7"], "-1": [], "": []}.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert provenance.gpus() == names
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert provenance.gpus() == ["first", "second"]


def test_the_lock_of_a_project_is_the_first_of_those_that_are_there(tmp_path: Path) -> None:
    assert provenance.describe_code(tmp_path, {})[0]["lock_sha256"] is None
    for name in reversed(provenance.LOCKS):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
        lock = provenance.describe_code(tmp_path, {})[0]["lock_sha256"]
        assert lock == hashlib.sha256(name.encode()).hexdigest()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository in which a text, a binary file and a name are no longer as they were committed."""
    folder = tmp_path / "a répo"
    folder.mkdir()
    (folder / "train.py").write_text("".join(f"line_{number} = 1\n" for number in range(20)))
    (folder / "fig.png").write_bytes(bytes(range(256)))
    (folder / "old name é").write_text("moved\n" * 20)
    commit_all(folder)
    (folder / "train.py").write_text((folder / "train.py").read_text().replace("line_9 = 1", "line_9 = 2"))
    (folder / "fig.png").write_bytes(bytes(reversed(range(256))))
    (folder / "old name é").rename(folder / "new name é")
    git(folder, "add", "--intent-to-add", "new name é")
    return folder


SETTINGS = """diff.noprefix=true diff.mnemonicPrefix=true diff.external=false diff.context=0 diff.relative=true
diff.renames=copies diff.submodule=log color.ui=always core.quotepath=on status.relativePaths=true""".split()


def test_the_kept_changes_are_applied_whatever_the_settings_of_git_are(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for setting in SETTINGS:
        git(root, "config", *setting.split("="))
    monkeypatch.setenv("GIT_DIFF_OPTS", "--unified=0")
    code, diff = describe_repository(root)
    assert (code["dirty"], code["diff_sha256"]) == (True, hashlib.sha256(diff).hexdigest())
    (tmp_path / "out").mkdir()
    made, _ = Sources(root).check_out(code, tmp_path / "out", diff)
    for name in ("train.py", "fig.png", "new name é"):
        assert (made / name).read_bytes() == (root / name).read_bytes(), name
    assert not (made / "old name é").exists()


def test_changes_that_are_too_long_are_cut_and_their_hash_says_so(root: Path) -> None:
    noise = b"".join(hashlib.sha256(number.to_bytes(2, "big")).digest() for number in range(65_536))
    (root / "fig.png").write_bytes(noise)
    code, diff = describe_repository(root)
    assert LARGEST_DIFF < len(diff) < LARGEST_DIFF + 20
    assert diff.endswith(b"\n... cut\n")
    assert code["diff_sha256"] != hashlib.sha256(diff).hexdigest()


@pytest.mark.slow
def test_a_git_that_does_not_answer_is_not_taken_for_one_that_found_nothing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text('#!/bin/sh\ncase "$*" in *status*) exec sleep 600;; esac\nPATH=${PATH#*:}; exec git "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:/usr/local/bin:/usr/bin:/bin")
    ask = core_git.Repository.ask

    def ask_in_time(repository: core_git.Repository, *words: str, **how: Any) -> bytes:
        return ask(repository, *words, **{**how, "seconds": 0.5 if "status" in words else 600})

    monkeypatch.setattr(core_git.Repository, "ask", ask_in_time)
    code, diff = describe_repository(root)
    assert (code["dirty"], code["diff_sha256"], diff) == (None, None, b"")
    assert len(code["commit"]) == 40
    assert code["git"] == "git did not answer within 0.5 s"


def test_a_repository_of_somebody_else_is_said_to_be_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    code, _ = describe_repository(root)
    assert list(code) == ["git"]
    assert code["git"].startswith("git refuses: detected dubious ownership in repository at ")


def test_of_no_repository_nothing_is_said_and_of_one_the_folder_in_it(root: Path, tmp_path: Path) -> None:
    assert describe_repository(tmp_path) == ({}, b"")
    git(tmp_path, "init", "--quiet")
    assert describe_repository(tmp_path) == ({}, b""), "it has no commit"
    assert "prefix" not in describe_repository(root)[0]
    below = root / "services" / "my [exp] é"
    below.mkdir(parents=True)
    assert describe_repository(below)[0]["prefix"] == "services/my [exp] é/"


def test_changes_within_a_submodule_are_named_since_no_text_holds_them(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "lib.py").write_text("lib = 1\n")
    commit_all(other)
    git(root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "third party")
    git(root, "commit", "--quiet", "-am", "Third")
    assert describe_repository(root)[0]["dirty"] is False
    (root / "third party" / "lib.py").write_text("changed = 1\n")
    code, diff = describe_repository(root)
    assert (code["dirty"], code["submodules"], diff) == (True, ["third party"], b"")
