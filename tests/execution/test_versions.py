"""`runner compare` from end to end, with versions that it runs in turn."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from runner.core.errors import RequestError
from runner.execution.signals import Interrupts
from runner.execution.worktrees import bring, worktrees
from tests.support.launches import ended, until
from tests.support.projects import OK, Project
from tests.support.records import Make
from tests.support.repository import git

MEASURED = '{"train_seconds": 1.0 + rank / 4, "final'
STEP = 'log.start("epoch_start", epoch_num=epoch, epochs=args.epochs)'
SLEEPS = OK.replace(STEP, f"{STEP}; __import__('time').sleep(600)")


def taking(seconds: str) -> str:
    """Return the project's program, with another training time in its output."""
    return OK.replace(MEASURED, MEASURED.replace("1.0 + rank / 4", seconds))


def about(seconds: float) -> str:
    """Return an expression for a time that differs by some thousandths from run to run."""
    return f"{seconds} * (1 + os.getpid() % 97 / 16_000)"


@pytest.fixture
def versions(project: Project, tmp_path: Path) -> Project:
    """Return a project in a folder of a repository, with the tags `before` and `after`, whose program is slower."""
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
    """Return whether no worktree is left, neither as a folder nor in git's list."""
    trees = git(project.root, "worktree", "list", "--porcelain").count("worktree ")
    return trees == 1 and not list(Path(project.env["TMPDIR"]).glob("runner-compare-*"))


def compared(project: Project, *words: str) -> tuple[int, dict[str, Any]]:
    done = project.runner("compare", *words, "--json")
    assert done.stdout.startswith("{"), done.snapshot
    return done.code, json.loads(done.stdout)


def test_a_commit_that_takes_longer_is_slower(versions: Project) -> None:
    code, found = compared(versions, "before", "after", "--experiment", "tiny", "--repeat", "3")
    (cell,) = found["cells"]
    assert (code, cell["verdict"], cell["design"]) == (1, "slower", "pairs"), cell
    assert 1.3 < cell["ratio_low"] < 1.1 * 0.7 / 0.4 < 1.2 * cell["ratio_high"]
    assert "code" in cell["differs"][0]
    launches = [versions.record(folder)["launch"] for folder in versions.runs()]
    assert "".join(launch["side"]["name"] for launch in launches) == "ABBAAB"
    for launch in launches:
        head = git(versions.root, "rev-parse", launch["side"]["label"].partition(" ")[0]).strip()
        assert (launch["code"]["commit"], launch["code"]["dirty"]) == (head, False)
    assert nothing_left(versions)


def test_a_commit_finds_the_data_of_the_checkout_and_what_else_is_asked_for(versions: Project) -> None:
    prepared = ["data/set/x", "cache/train/x", "experiments/toys/cache/x"]
    for name in prepared:
        (versions.root / name).parent.mkdir(parents=True, exist_ok=True)
        (versions.root / name).write_text("prepared")
    with worktrees(versions.root, Interrupts(), ["cache/", "experiments"]) as add:
        project = add("before")
        assert project.name == versions.root.name
        assert [(project / name).read_text() for name in prepared] == ["prepared"] * 3
        assert about(0.4) in (project / "experiments" / "toys" / "ok.py").read_text()
        with pytest.raises(RequestError, match="--with-files absent"):
            bring(versions.root, project, ["absent"])
    assert [(versions.root / name).exists() for name in prepared] == [True] * 3
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
    assert ended(process)[0] == 130
    assert nothing_left(versions)
    assert [versions.record(folder)["status"] for folder in versions.runs()] == ["interrupted"]


REFUSED = [
    (["no\x1bthing", "."], "thing: not a folder"),
    (["results", "."], "results is a folder of results"),
    ([".", "."], "--experiment: one of tiny"),
    ([".", ".", "--experiment", "tiny", "--detect", "0%"], "--detect 0%"),
    (["results", "results", "--layout", "1x2"], "results are compared"),
    (["HEAD", ".", "--experiment", "tiny", "--on", "compose"], "--on local"),
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
