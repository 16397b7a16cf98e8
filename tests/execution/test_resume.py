"""`runner resume`: a run that did not complete is started again; it stays one record, on which no claim rests."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from runner.records.folder import RunFolder
from tests.support.launches import BEGINNING, END, WAIT, one_run, until, words_are_printed
from tests.support.projects import Project

SECOND = Path("go")
"""With this file in the project the program completes."""
FAILS = f"""
print(f"rank {{RANK}} is here", flush=True)
if not os.path.exists("{SECOND}"):
    print("the first attempt fails", flush=True)
    sys.exit(3)
"""


@pytest.fixture
def failed(project: Project) -> Path:
    """A run that has failed; with a file `go` its next attempt would complete."""
    one_run(project, BEGINNING + FAILS + END + "#\n", "1x1")
    assert project.runner("run", "tiny").code == 1
    (run,) = project.runs()
    return run


def go(project: Project) -> None:
    (project.root / SECOND).touch()


def edit(run: Path, **changes: Any) -> None:
    """Change what a run's record and its launch say."""
    for path in (run / "run.json", run / "request" / "launch.json"):
        read = json.loads(path.read_bytes())
        launch = read["launch"] if path.name == "run.json" else read
        launch.update(changes)
        path.write_text(json.dumps(read))


def files_of(run: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


def test_a_run_that_failed_twice_is_one_record_with_three_attempts(project: Project, failed: Path) -> None:
    before, raw = project.record(failed), (failed / "raw" / "node0-rank0.stdout").read_bytes()
    assert project.runner("resume", failed).code == 1
    go(project)
    done = project.runner("resume", failed)
    assert done.code == 0, done.snapshot
    assert project.runs() == [failed]
    record = project.record(failed)
    assert record["status"] == "completed"
    first, second = record["launch"]["attempts"]
    assert first == {
        "started": before["launch"]["started"],
        "ended": before["outcome"]["ended"],
        "status": "failed",
        "reason": before["reason"],
    }
    assert second["status"] == "failed"
    assert record["doubts"] == ["started again: 3 attempts"]
    assert (failed / "attempts" / "2" / "raw" / "outcome.json").exists()
    kept = failed / "attempts" / "1"
    assert (kept / "raw" / "node0-rank0.stdout").read_bytes() == raw
    assert json.loads((kept / "run.json").read_bytes()) == before
    assert b"the first attempt fails" not in (failed / "raw" / "node0-rank0.stdout").read_bytes()
    summary = project.runner("summarize")
    assert "doubtful: started again: 3 attempts" in summary.stdout
    collected = project.runner("collect", failed)
    assert collected.code == 0
    assert project.record(failed) == record


def test_a_killed_run_is_finished_first(project: Project) -> None:
    one_run(project, BEGINNING + f'if not os.path.exists("{SECOND}"):' + WAIT.replace("\n", "\n    ") + END, "1x1")
    process = project.start("run", "tiny")
    until(words_are_printed(project, "waits"))
    (run,) = project.runs()
    assert "it still runs" in project.refused("resume", run)
    os.kill(project.record(run)["launch"]["runner"]["pid"], signal.SIGKILL)
    process.communicate()
    go(project)
    done = project.runner("resume", run)
    assert done.code == 0, done.snapshot
    record = project.record(run)
    assert [attempt["status"] for attempt in record["launch"]["attempts"]] == ["incomplete"]
    assert "waits" in (run / "attempts" / "1" / "raw" / "node0-rank0.stdout").read_text()


def test_a_completed_run_is_refused(project: Project) -> None:
    project.define(matrix={"layout": ["1x1"]})
    assert project.runner("run", "tiny").code == 0
    (run,) = project.runs()
    before = files_of(run)
    assert "it has completed" in project.refused("resume", run)
    assert files_of(run) == before


def test_what_has_changed_is_named_and_nothing_is_touched(project: Project, failed: Path) -> None:
    before = files_of(failed)
    project.define(matrix={"layout": ["1x1"]}, timeout_seconds=61)
    assert "has changed since the run was started: timeout_seconds" in project.refused("resume", failed)
    project.define(matrix={"layout": ["1x1"]})
    project.program("toys.ok", BEGINNING + FAILS + END)
    assert "the code of program toys.ok is no longer the same" in project.refused("resume", failed)
    (project.root / "experiments" / "tiny.yaml").unlink()
    assert "tiny" in project.refused("resume", failed)
    assert files_of(failed) == before


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"experiment": "/etc/passwd.yaml"}, "is no name"),
    ({"experiment": "../tiny"}, "is no name"),
    ({"program": "os"}, "has no program 'os'"),
    ({"args": {"run-path": "x"}}, "takes no arg"),
    ({"layout": "9999999x9"}, "layout"),
    ({"layout": "2x1"}, "the command is no longer the same"),
    ({"device": "\u001b[31m"}, "device"),
    ({"target": "moon"}, "its folder does not have the name of the run"),
    ({"id": "../../tiny"}, "its folder does not have the name of the run"),
    ({"options": {"image": "x"}}, "--trust starts it on target local image=x"),
    ({"options": {"a": [1]}}, "is no text and no number"),
    ({"by_hand": True}, "was started by hand"),
]


def test_a_hostile_record_starts_nothing(project: Project, failed: Path) -> None:
    go(project)
    whole = files_of(failed)
    for changes, why in HOSTILE:
        edit(failed, **changes)
        before = files_of(failed)
        assert why in project.refused("resume", failed)
        assert files_of(failed) == before
        for path, content in whole.items():
            path.write_bytes(content)


def test_a_link_in_the_folder_is_not_followed(project: Project, failed: Path, tmp_path: Path) -> None:
    go(project)
    (tmp_path / "elsewhere").mkdir()
    for name in ("attempts", "raw"):
        if name == "raw":
            (failed / "raw").rename(tmp_path / "raw")
        (failed / name).symlink_to(tmp_path / "elsewhere")
        project.refused("resume", failed)
        assert list((tmp_path / "elsewhere").iterdir()) == []
        (failed / name).unlink()


@pytest.mark.slow
def test_after_a_kill_at_any_step_the_next_resume_goes_on(
    project: Project, failed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each system call that changes the folder is the last one, once."""
    folder = RunFolder(failed)
    record = folder.read()
    launch = folder.launch()
    launch.attempts = [{"started": "", "ended": None, "status": "failed"}]  # type: ignore[list-item]
    steps = 0
    while True:
        calls = 0

        def counted(do: Any, limit: int = steps) -> Any:
            def call(*words: Any, **more: Any) -> Any:
                nonlocal calls
                calls += 1
                if calls > limit:
                    raise KeyboardInterrupt
                return do(*words, **more)

            return call

        with monkeypatch.context() as patch:
            for name in ("mkdir", "rename"):
                patch.setattr(Path, name, counted(getattr(Path, name)))
            for name in ("replace", "fsync"):
                patch.setattr(os, name, counted(getattr(os, name)))
            try:
                folder.start_again(record, launch, "{}", "", "request.json")
                break
            except KeyboardInterrupt:
                pass
        assert folder.read() == record
        assert project.runner("summarize").code == 0
        steps += 1
    assert steps > 8
    assert folder.read().status == "running"
    assert b"the first attempt" in (failed / "attempts" / "1" / "raw" / "node0-rank0.stdout").read_bytes()
    assert list((failed / "raw").iterdir()) == []


def test_two_that_resume_at_once_start_it_once(project: Project, failed: Path) -> None:
    processes: list[subprocess.Popen[str]] = [project.start("resume", failed) for _ in range(2)]
    done = [process.communicate() for process in processes]
    codes = sorted(process.returncode for process in processes)
    record = project.record(failed)
    assert len(record["launch"]["attempts"]) == codes.count(1), done
    assert set(codes) <= {1, 2}
    assert 1 in codes
