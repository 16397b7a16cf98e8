"""The machine and repository of a record: only facts that git states, whatever its settings."""

import hashlib
from functools import partialmethod
from pathlib import Path

import pytest

from runner.core.git import Repository
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


def test_the_lock_of_a_project_is_the_first_that_exists(tmp_path: Path) -> None:
    assert provenance.describe_code(tmp_path, {})[0]["lock_sha256"] is None
    (tmp_path / "requirements").mkdir()
    for name in reversed(provenance.LOCKS):
        (tmp_path / name).write_text(name)
        lock = provenance.describe_code(tmp_path, {})[0]["lock_sha256"]
        assert lock == hashlib.sha256(name.encode()).hexdigest()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository in which a text, a binary file and a name have changed since the commit."""
    folder = tmp_path / "a répo"
    folder.mkdir()
    train, old, lines = folder / "train.py", folder / "old name é", [f"line_{number} = 1\n" for number in range(20)]
    train.write_text("".join(lines))
    (folder / "fig.png").write_bytes(bytes(range(256)))
    old.write_text("moved\n" * 20)
    commit_all(folder)
    train.write_text("".join(lines).replace("line_9 = 1", "line_9 = 2"))
    (folder / "fig.png").write_bytes(bytes(reversed(range(256))))
    old.rename(folder / "new name é")
    git(folder, "add", "--intent-to-add", "new name é")
    return folder


SETTINGS = """diff.noprefix=true diff.mnemonicPrefix=true diff.external=false diff.context=0 diff.relative=true
diff.renames=copies diff.submodule=log color.ui=always core.quotepath=on status.relativePaths=true""".split()


def test_the_diff_is_applicable_whatever_the_settings_of_git(
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


def test_a_long_diff_is_cut_and_its_hash_shows_it(root: Path) -> None:
    noise = b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(65_536))
    (root / "fig.png").write_bytes(noise)
    code, diff = describe_repository(root)
    assert LARGEST_DIFF < len(diff) < LARGEST_DIFF + 20
    assert diff.endswith(b"\n... cut\n")
    assert code["diff_sha256"] != hashlib.sha256(diff).hexdigest()


def test_a_git_that_does_not_answer_leaves_facts_unknown(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Repository, "ask", partialmethod(Repository.ask, seconds=0))
    code, diff = describe_repository(root)
    assert (code["dirty"], code["diff_sha256"], len(code["commit"]), diff) == (None, None, 40, b"")
    assert "did not answer" in code["git"]


def test_the_repository_of_another_user_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    code, _ = describe_repository(root)
    assert list(code) == ["git"]
    assert "dubious ownership" in code["git"]


def test_without_a_repository_or_a_commit_there_are_no_facts_and_a_folder_has_a_prefix(
    root: Path, tmp_path: Path
) -> None:
    assert describe_repository(tmp_path) == ({}, b"")
    git(tmp_path, "init", "--quiet")
    assert describe_repository(tmp_path) == ({}, b"")
    assert "prefix" not in describe_repository(root)[0]
    below = root / "services" / "my [exp] é"
    below.mkdir(parents=True)
    assert describe_repository(below)[0]["prefix"] == "services/my [exp] é/"


def test_changes_within_a_submodule_are_named_because_the_diff_lacks_them(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "lib.py").touch()
    commit_all(other)
    git(root, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "third party")
    git(root, "commit", "--quiet", "-am", "Third")
    assert describe_repository(root)[0]["dirty"] is False
    (root / "third party" / "lib.py").write_text("changed = 1\n")
    code, diff = describe_repository(root)
    assert (code["dirty"], code["submodules"], diff) == (True, ["third party"], b"")
