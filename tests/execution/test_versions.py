"""`runner compare` from one end to the other: versions that it runs itself, in turn, and folders as they are."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from runner.core.errors import RequestError
from runner.execution.signals import Interrupts
from runner.execution.worktrees import bring, worktrees
from runner.report.summarize import summarize
from tests.support.launches import until
from tests.support.projects import OK, Project
from tests.support.records import Make
from tests.support.repository import git

MEASURED = '{"train_seconds": 1.0 + rank / 4, "final'
STEP = 'log.start("epoch_start", epoch_num=epoch, epochs=args.epochs)'
SLEEPS = OK.replace(STEP, f"{STEP}; __import__('time').sleep(600)")


def taking(seconds: str) -> str:
    """The project's program, which says that its training took so long."""
    return OK.replace(MEASURED, MEASURED.replace("1.0 + rank / 4", seconds))


def about(seconds: float) -> str:
    """A time that differs by some thousandths from run to run, on a busy machine too."""
    return f"{seconds} * (1 + os.getpid() % 97 / 16_000)"


@pytest.fixture
def versions(project: Project, tmp_path: Path) -> Project:
    """A project in a folder of a repository, with the tag `before` and a slower program after it."""
    project.define(matrix={"layout": ["1x1"]})
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text("__pycache__/\nresults/\ncache/\ntemporary/\n")
    for seconds, tag in ((0.4, "before"), (0.7, "after")):
        project.program("toys.ok", taking(about(seconds)))
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-qm", tag)
        git(tmp_path, "tag", tag)
    (tmp_path / "temporary").mkdir()
    project.env["TMPDIR"] = str(tmp_path / "temporary")
    return project


def nothing_left(project: Project) -> bool:
    """Whether the worktrees are gone, from the folder for temporary files and from the repository's list."""
    trees = git(project.root, "worktree", "list", "--porcelain").count("worktree ")
    temporary = list(Path(project.env["TMPDIR"]).glob("runner-compare-*"))
    return trees == 1 and not temporary


def compared(project: Project, *words: str) -> tuple[int, dict[str, Any]]:
    ended = project.runner("compare", *words, "--json")
    assert ended.stdout.startswith("{"), ended.snapshot
    return ended.code, json.loads(ended.stdout)


def test_a_commit_that_takes_longer_is_slower(versions: Project) -> None:
    code, found = compared(versions, "before", "after", "--experiment", "tiny", "--repeat", "3")
    (cell,) = found["cells"]
    assert (code, cell["verdict"], cell["design"]) == (1, "slower", "pairs"), cell
    assert 1.3 < cell["ratio_low"] < 1.1 * 0.7 / 0.4 < 1.2 * cell["ratio_high"]
    assert found["a"].startswith("before (")
    assert cell["differs"][0].startswith("code differs: ")
    records = [versions.record(folder) for folder in versions.runs()]
    assert "".join(record["launch"]["side"]["name"] for record in records) == "ABBAAB"
    heads = {name: git(versions.root, "rev-parse", name).strip() for name in ("before", "after")}
    for record in records:
        launch = record["launch"]
        label = launch["side"]["label"].partition(" ")[0]
        assert (launch["code"]["commit"], launch["code"]["dirty"]) == (heads[label], False)
    assert nothing_left(versions)
    tables = summarize(versions.results)[0]
    assert [len(row.runs) for table in tables for row in table.rows] == [3, 3]  # the sides are not mixed


def test_a_commit_finds_the_data_of_the_checkout_and_what_else_is_asked_for(versions: Project) -> None:
    lacks = ["cache/train/x", "experiments/toys/cache/x"]
    for name in ("data/set/x", *lacks):
        (versions.root / name).parent.mkdir(parents=True, exist_ok=True)
        (versions.root / name).write_text("prepared")
    commit = git(versions.root, "rev-parse", "before").strip()
    with worktrees(versions.root, Interrupts(), ["cache/", "experiments"]) as add:
        project = add(commit)
        assert project.name == versions.root.name
        assert [(project / name).read_text() for name in ("data/set/x", *lacks)] == ["prepared"] * 3
        assert about(0.4) in (project / "experiments" / "toys" / "ok.py").read_text()
        with pytest.raises(RequestError, match="--with-files absent: there is nothing"):
            bring(versions.root, project, ["absent"])
    assert not project.exists()
    assert [(versions.root / name).exists() for name in ("data/set/x", *lacks)] == [True] * 3
    assert nothing_left(versions)


@pytest.mark.slow
def test_a_side_with_uncommitted_changes_that_fail_is_exit_code_1_and_is_not_run_again(versions: Project) -> None:
    versions.program("toys.ok", "raise SystemExit(3)\n")
    code, found = compared(versions, "before", ".", "--experiment", "tiny", "--repeat", "3")
    assert (code, found["cells"][0]["verdict"], found["b"]) == (1, "not comparable", ".")
    assert [versions.record(folder)["status"] for folder in versions.runs()] == ["completed", "failed"]


@pytest.mark.real_processes
def test_a_signal_removes_the_worktrees_and_keeps_the_records(versions: Project) -> None:
    versions.program("toys.ok", SLEEPS)
    git(versions.root, "commit", "-qam", "long")
    process = versions.start("compare", "HEAD", "HEAD", "--experiment", "tiny")
    until(versions.runs)
    os.killpg(process.pid, signal.SIGTERM)
    _, said = process.communicate()
    assert process.returncode == 130, said
    assert nothing_left(versions)
    assert [versions.record(folder)["status"] for folder in versions.runs()] == ["interrupted"]


REFUSED = [
    (["no\x1bthing", "."], "thing: neither a folder, a definition's file, nor a commit of"),
    (["results", "."], "results is a folder of results, . is a project's folder"),
    ([".", "."], "say what is run: --experiment, one of tiny"),
    ([".", ".", "--experiment", "tiny", "--detect", "0%"], "--detect 0%: write a difference"),
    (["results", "results", "--layout", "1x2"], "results are compared as they are"),
    (["HEAD", ".", "--experiment", "tiny", "--on", "compose"], "a commit is run on this machine"),
]


def test_a_bad_request_is_one_line_and_nothing_is_run(versions: Project, make: Make) -> None:
    make.run(versions.results)
    before = versions.written()
    for words, said in REFUSED:
        refused = versions.refused("compare", *words)
        assert said in refused
        assert refused.strip().isprintable()
    assert versions.written() == before
    assert nothing_left(versions)
