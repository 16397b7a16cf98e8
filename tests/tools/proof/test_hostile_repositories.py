"""A repository in an archive is never used; data may be a link or a file in the project's repository."""

import hashlib
import shutil
from pathlib import Path

import pytest

from runner.records import manifest
from runner.tools.proof.bundle import pack
from runner.tools.proof.checkouts import tree_name
from tests.support.hostile import arm
from tests.support.projects import Project
from tests.support.records import Make
from tests.support.repository import commit_all
from tests.tools.proof.conftest import committed, ran, verdict_of


def test_a_repository_in_an_archive_is_not_asked_and_no_diff_is_applied(
    project: Project, make: Make, tmp_path: Path
) -> None:
    top, diff = tmp_path / "kit", b"diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n"
    code = {"commit": "a" * 40, "dirty": True, "diff_sha256": hashlib.sha256(diff).hexdigest()}
    run = make.run(top / "results", code={**code, "sources_sha256": "c" * 64})
    (run.path / "request" / "code.diff").write_bytes(diff)
    (run.path / manifest.NAME).unlink()
    run.seal()
    tree = top / str(tree_name(code))
    tree.mkdir(parents=True)
    (tree / "a.txt").write_text("one\n")
    commit_all(tree)
    arm(tree, tmp_path / "marks")
    shutil.copytree(tree / ".git", tree, dirs_exist_ok=True)  # a bare repository, whatever its name
    shutil.rmtree(tree / ".git")
    (top / manifest.NAME).write_bytes(manifest.write(manifest.make(top)))
    with (project.root / "evil.tar").open("wb") as file:
        pack(top, file)
    ran(project, "verify", "evil.tar")
    ran(project, "reproduce", "evil.tar", "--yes", code=1)
    assert [*(tmp_path / "marks").iterdir()] == []


@pytest.mark.parametrize("content", ["prepared", "committed"])
def test_data_may_be_a_link_or_a_file_of_the_repository(project: Project, tmp_path: Path, content: str) -> None:
    project.define(matrix={"layout": ["1x1"]})
    ok = project.root / "experiments" / "toys" / "ok.py"
    seen = 'print("sees", open("data" if os.path.isfile("data") else "data/set").read())'
    ok.write_text(ok.read_text().replace("log = EventLog(rank)", f"log = EventLog(rank)\n    {seen}"))
    data, far = project.root / "data", tmp_path / "far"
    far.mkdir()
    (far / "set").write_text("prepared")
    if content == "committed":
        data.write_text(content)
    else:
        data.symlink_to(far)
    committed(project)
    ran(project, "run", "tiny")
    data.unlink()
    data.symlink_to(far)
    assert verdict_of(project, "reproduce", project.runs()[0])["level"] == 2
    (log,) = (project.root / "reproduced").rglob("node0-rank0.stdout")
    assert f"sees {content}" in log.read_text()
