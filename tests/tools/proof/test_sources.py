"""The code of a run, put together again from its commit and the kept changes, here and from an archive."""

import hashlib
import json
from pathlib import Path

import pytest

from runner.definitions.definition import hash_resolved
from tests.support.projects import Project, make_project
from tests.support.records import Make
from tests.support.repository import commit_all, git
from tests.tools.proof.conftest import change_launch, committed, one_run, ran, refused, verdict_of


def change(project: Project) -> None:
    path = project.root / "experiments" / "toys" / "ok.py"
    path.write_text(path.read_text().replace("(0.5).hex()", "(0.25).hex()"))


def bundled(project: Project) -> Path:
    ran(project, "bundle", "results")
    return project.root / "kit.tar"


@pytest.mark.slow
def test_a_project_in_a_folder_of_a_repository_is_verified_and_made_again_from_its_archive(tmp_path: Path) -> None:
    top = tmp_path / "mono répo"
    project = make_project(top / "services" / "my [exp]", tmp_path / "cache")
    (top / "shared.txt").write_text("shared\n")
    committed(project, top)
    change(project)
    (top / "shared.txt").write_text("changed\n")
    run = one_run(project)
    git(top, "stash", "--quiet")
    for where in (run, bundled(project)):
        ended = ran(project, "verify", where)
        assert " and the kept changes" in ended.stdout
        ran(project, "reproduce", where)
    ran(project, "verify", "reproduced")


@pytest.mark.slow
def test_what_git_leaves_out_of_its_own_archives_is_in_the_checkout(project: Project) -> None:
    (project.root / ".gitattributes").write_text("experiments/toys export-ignore\n*.yaml export-subst\n")
    committed(project)
    one_run(project)
    ran(project, "verify", bundled(project))


@pytest.mark.slow
def test_a_submodule_is_said_to_be_left_out_at_bundling_and_at_verifying(project: Project, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "lib.py").write_text("lib = 1\n")
    commit_all(other)
    committed(project)
    add = ("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other))
    git(project.root, *add, "experiments/toys/third")
    git(project.root, "commit", "--quiet", "-am", "Third")
    program = project.root / "experiments" / "toys" / "ok.py"
    program.write_text("from experiments.toys.third import lib\n" + program.read_text())
    git(project.root, "commit", "--quiet", "-am", "Use it")
    one_run(project)
    ended = project.runner("bundle", "results")
    assert "/experiments/toys/third: a submodule: its files are in another repository" in ended.stderr
    ended = project.runner("verify", "kit.tar")
    assert "the commit does not hold experiments/toys/third, a submodule" in ended.stdout, ended.snapshot


def with_kept_changes(project: Project) -> Path:
    committed(project)
    change(project)
    return one_run(project)


def test_changes_that_no_tree_takes_are_found_also_where_the_programs_are_those_of_the_checkout(
    project: Project,
) -> None:
    run = with_kept_changes(project)
    path = run / "request" / "code.diff"
    path.write_bytes(
        path.read_bytes()
        + b"diff --git a/x.png b/x.png\nindex 11..22 100644\nBinary files a/x.png and b/x.png differ\n"
    )
    change_launch(
        project, run, lambda launch: launch["code"].update(diff_sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    )
    ended = ran(project, "verify", run, code=1)
    assert "  level 1: programs: those of this checkout, but commit" in ended.stdout
    assert "does not take the kept changes: error: x.png: No such file or directory" in ended.stdout


def test_nothing_is_run_with_changes_that_were_cut(project: Project) -> None:
    run = with_kept_changes(project)
    change_launch(project, run, lambda launch: launch["code"].update(diff_sha256="d" * 64))
    why = "request/code.diff was cut at 1 MB or altered: its hash is another; nothing is run from it"
    refused(project, why, "reproduce", run)


def test_a_run_that_is_made_again_rests_on_its_inputs(project: Project) -> None:
    run = with_kept_changes(project)
    change_launch(project, run, lambda launch: launch["code"].update(sources_sha256="d" * 64))
    verdict = verdict_of(project, "reproduce", run, code=1)
    assert (verdict["level"], verdict["checks"][0]["same"]) == (0, True)
    assert verdict["stopped"][0].startswith("programs: neither those of this checkout nor of commit")
    assert any(note.startswith("level 2 holds by itself") for note in verdict["notes"])


def test_a_cell_that_cannot_be_put_together_costs_no_other_its_verdict(project: Project, make: Make) -> None:
    committed(project)
    one_run(project)
    sha256 = hash_resolved(make.launch().definition)
    make.run(project.results, layout="1x2", definition_sha256=sha256)
    commit = git(project.root, "rev-parse", "HEAD").strip()
    code = {"commit": commit, "dirty": False, "sources_sha256": "c" * 64}
    make.run(project.results, layout="1x3", program="toys.gone", code=code, definition_sha256=sha256)
    bundled(project)
    ended = ran(project, "reproduce", "kit.tar", "--json", code=1)
    verdicts = json.loads(ended.stdout)["runs"]
    assert sorted(verdict["level"] >= 2 for verdict in verdicts) == [False, False, True]
    assert any("the record names no commit to run again" in why for verdict in verdicts for why in verdict["stopped"])
    assert "/tmp/" not in ended.stdout  # a name, not a place to write
    assert str(project.root.parent) not in ended.stdout


def test_nothing_is_run_from_a_definition_that_is_not_the_one_its_hash_names(project: Project) -> None:
    committed(project)
    run = one_run(project)
    change_launch(project, run, lambda launch: launch["definition"].update(summary="Another"))
    why = "level 0: definition: the one in the record is not the one that its hash names; nothing is run"
    refused(project, why, "reproduce", run)
