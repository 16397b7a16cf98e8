"""`runner verify`: the level that a record reaches, and what stopped the next."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runner.tools.proof.inputs import Inputs
from runner.tools.proof.sources import Sources
from runner.tools.proof.verify import verify
from tests.support.projects import ROOT, Project
from tests.support.records import Make
from tests.support.repository import git
from tests.tools.proof.conftest import change_launch, committed, one_run, ran, refused, verdict_of


@pytest.fixture
def run(project: Project) -> Path:
    """A run of a committed project with a lock file."""
    project.define()
    (project.root / "requirements.lock").write_text("torch==2.3.1\n")
    committed(project)
    return one_run(project)


def test_a_run_of_a_committed_project_reaches_level_1_until_a_byte_is_altered(project: Project, run: Path) -> None:
    ended = ran(project, "verify", run)
    assert ended.stdout.splitlines()[0].endswith("level 1: its inputs are there and the same")
    assert "  programs: those of this checkout" in ended.stdout
    assert "  data: not checked: the run says of none that it has read it" in ended.stdout
    assert "manifest:" not in ended.stdout
    assert project.runner("collect", run).stderr == ""
    path = project.root / "experiments" / "toys" / "ok.py"
    path.write_text(path.read_text() + "# changed\n")
    git(project.root, "commit", "--quiet", "-am", "Change")
    ended = project.runner("verify", run)
    assert (ended.code, "manifest:" in ended.stdout) == (0, False), ended.snapshot
    assert "  programs: those of commit " in ended.stdout
    with (run / "raw" / "node0-rank0.stdout").open("ab") as file:
        file.write(b"\n")
    ended = project.runner("verify", run)
    assert (ended.code, "no level" in ended.stdout) == (1, True)
    assert "  level 0: raw/node0-rank0.stdout: altered: it has" in ended.stdout


def test_uncommitted_changes_are_kept_and_programs_rebuilt_from_them(project: Project) -> None:
    project.define()
    committed(project)
    path = project.root / "experiments" / "toys" / "ok.py"
    before = path.read_text()
    path.write_text(before + "# not committed\n")
    run = one_run(project)
    path.write_text(before)
    ended = ran(project, "verify", run)
    assert "and the kept changes" in ended.stdout
    diff = run / "request" / "code.diff"
    diff.write_bytes(diff.read_bytes()[:40] + b"\n... cut\n")
    assert_no_level_1(project, run, "changes: request/code.diff was cut at 1 MB or altered")
    diff.unlink()
    assert_no_level_1(project, run, "changes: the tree was dirty, and request/code.diff is lost")


def assert_no_level_1(project: Project, run: Path, why: str) -> None:
    """Verify a run whose manifest is made again, as whoever loses its changes may do."""
    (run / "SHA256SUMS").unlink()
    assert project.runner("collect", run).code == 0
    ended = ran(project, "verify", run, code=1)
    assert "level 0: the record is whole" in ended.stdout
    assert f"  level 1: {why}" in ended.stdout


def link(path: Path) -> None:
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 10**12)


@pytest.mark.parametrize(
    ("put", "why"),
    [(link, "it is a link"), (os.mkfifo, "it is no regular file"), (sparse, "it has more than 4,000,000 bytes")],
)
def test_kept_changes_that_are_no_plain_file_or_too_large_are_given_to_nobody(
    project: Project, make: Make, put: Any, why: str
) -> None:
    project.define()
    committed(project)
    commit = git(project.root, "rev-parse", "HEAD").strip()
    code = {"commit": commit, "dirty": True, "diff_sha256": "d" * 64, "sources_sha256": "c" * 64}
    folder = make.run(project.root / "results", code=code)
    put(folder.path / "request" / "code.diff")
    checks = {check.name: check for check in Inputs(Sources(project.root)).check(folder.read(), folder.path)}
    ended = ran(project, "reproduce", folder.path, "--anyway", code=1)
    assert f"level 0: the tree was dirty, and request/code.diff is lost: {why}" in ended.stderr
    assert (checks["changes"].same, checks["programs"].same) == (False, False)
    assert f"request/code.diff is lost: {why}" in checks["changes"].says
    assert f"the changes to commit {commit[:12]} are lost" in checks["programs"].says


def test_a_manifest_that_was_made_later_is_no_silent_proof(project: Project, run: Path) -> None:
    (run / "SHA256SUMS").unlink()
    path = run / "raw" / "node0-rank0.stdout"
    path.write_bytes(path.read_bytes().replace(b'"train_seconds": 1.0', b'"train_seconds": 0.5'))
    ended = ran(project, "collect", run)
    assert "it had no SHA256SUMS: that of what is there now does not show what was altered before" in ended.stderr
    later = (
        "manifest: not checked: made by runner collect, not at the end of the run: what was altered before is not found"
    )
    for words in ([run], [run, "--level", "0"]):
        ended = ran(project, "verify", *words)
        assert f"  {later}\n" in ended.stdout
        assert "  note: run.json was written again by runner collect, from the raw files\n" in ended.stdout
    assert verdict_of(project, "verify", "results")["checks"][0]["name"] == "manifest"


def test_runs_of_a_folder_that_is_no_project_are_verified_and_bundled_with_its_code(
    project: Project, run: Path, tmp_path: Path
) -> None:
    (project.root / "runner.toml").unlink()
    ended = ran(project, "verify")
    assert "  programs: those of this checkout" in ended.stdout
    assert project.runner("bundle").code == 0
    ran(project, "verify", "kit.tar")
    elsewhere = Project(tmp_path / "elsewhere", project.env)
    elsewhere.root.mkdir()
    ended = ran(elsewhere, "verify", run, code=1)
    assert "  level 1: programs: there is no project here: go to a clone of it" in ended.stdout
    ended = ran(elsewhere, "bundle", run.parent)
    assert "left out: the code of results/tiny/" in ended.stderr
    assert "the command was not given in its project" in ended.stderr


def test_a_record_without_a_commit_stays_at_level_0(finished: Project) -> None:
    ended = ran(finished, "verify", "results", code=1)
    assert ended.stdout.count("level 1: changes: the record names no commit") == 2
    assert "0 of 2 runs reach level 1" in ended.stdout
    assert finished.runner("verify", "results", "--level", "0").code == 0


def test_another_lock_file_and_a_commit_that_is_gone_are_named(project: Project, run: Path) -> None:
    path = project.root / "experiments" / "toys" / "ok.py"
    path.write_text(path.read_text() + "# changed\n")
    shutil.rmtree(project.root / ".git")
    committed(project)
    (project.root / "requirements.lock").write_text("torch==2.4.0\n")
    git(project.root, "commit", "--quiet", "-am", "Lock", "--amend")
    ended = ran(project, "verify", run, code=1)
    assert "  level 1: programs: not those of this checkout, and commit" in ended.stdout
    assert "  level 1: lock file: it is another one" in ended.stdout


def test_another_architecture_and_an_image_that_is_gone_are_named(project: Project, run: Path) -> None:
    def elsewhere(launch: dict[str, Any]) -> None:
        launch["host"]["os"] = "Linux-6.1-aarch64-with-glibc2.36"
        launch["image"] = {"id": "sha256:" + "0" * 64, "name": "kit:gone"}

    change_launch(project, run, elsewhere)
    ended = ran(project, "verify", run, env={"DOCKER_HOST": "unix:///nowhere.sock"}, code=1)
    assert "  level 1: architecture: the run was on aarch64" in ended.stdout
    assert "  image: not checked: " in ended.stdout


def test_data_that_differ_by_one_byte_are_named(project: Project) -> None:
    source = """
        import hashlib, json, pathlib
        data = (pathlib.Path(__file__).parent / "data.bin").read_bytes()
        print(json.dumps({"data_sha256": hashlib.sha256(data).hexdigest()}))
    """
    ok = (project.root / "experiments" / "toys" / "ok.py").read_text()
    told = 'log.point("dataset", "bin", data_sha256="6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d")'
    project.program("toys.reads", ok.replace('log.point("eval_samples"', f'{told}\n    log.point("eval_samples"'))
    project.program("toys.inputs", source)
    (project.root / "experiments" / "toys" / "data.bin").write_bytes(b"\0")
    project.define(program="toys.reads")
    committed(project)
    run = one_run(project)
    ended = ran(project, "verify", run)
    assert "  data: 6e340b9cffb3" in ended.stdout
    (project.root / "experiments" / "toys" / "data.bin").write_bytes(b"\1")
    ended = ran(project, "verify", run, code=1)
    assert "  level 1: data: it is another: SHA-256 4bf5122f3445, in the run 6e340b9cffb3" in ended.stdout


def test_the_data_of_the_kits_own_experiments_are_hashed_as_the_programs_hash_them() -> None:
    words = ["-m", "experiments.mnist.inputs", "--dataset", "digits", "--epochs", "3"]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, check=True)
    assert json.loads(done.stdout) == {
        "data_sha256": "0266a1485c48fced22507ed105abbf184ceacaa80352216d1692a5cb00fe7c24"
    }


@pytest.mark.parametrize(
    ("odd", "data"),
    [({"args": {"data_dir": "a\0b"}}, False), ({"program": "toys." + "a" * 5_000}, True)],
    ids=["a word with a NUL", "a name of 5,000 letters"],
)
def test_a_launch_that_no_command_can_be_made_of_costs_no_other_run_its_verdict(
    project: Project,
    make: Make,
    odd: dict[str, Any],
    data: bool,
) -> None:
    said = json.dumps({"data_sha256": "e" * 64})
    project.program("toys.inputs", f"print({said!r})")
    folders = [make.run(project.results, **changes).path for changes in (odd, {})]
    verdicts = list(verify(folders, Inputs(Sources(project.root))))
    assert [verdict.level for verdict in verdicts] == [0, 0]
    assert [check.same for verdict in verdicts for check in verdict.checks if check.name == "data"] == [data, True]


def test_what_is_no_run_is_refused_in_one_line(project: Project) -> None:
    for word in ("nowhere", "experiments"):
        refused(project, word, "verify", word, code=2)


def test_a_run_without_a_manifest_is_told_how_it_gets_one(project: Project, make: Make) -> None:
    folder = make.run(project.root / "results")
    (folder.path / "SHA256SUMS").unlink()
    ended = ran(project, "verify", folder.path, code=1)
    assert "level 0: no manifest: " in ended.stdout
    assert "runner collect" in ended.stdout


def test_what_git_did_not_say_is_said_at_the_run_and_by_verify(project: Project) -> None:
    project.define()
    committed(project)
    refusing = {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
    ended = ran(project, "run", "tiny", "--layout", "1x1", env=refusing)
    why = "git refuses: detected dubious ownership in repository at"
    assert why in ended.stdout + ended.stderr
    ended = ran(project, "verify", project.runs()[0], code=1)
    assert f"  level 1: changes: the record names no commit: {why}" in ended.stdout
