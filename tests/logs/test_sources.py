"""`runner collect` of logs: files, folders and stdin, whatever is in them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.projects import ROOT

LOG = "Train Epoch: 1 [59520/60000 (99%)]\tLoss: 0.0639\n\naccuracy=0.9664\nFinished Training\n"


def collect(*words: str | Path, given: str = "", code: int = 0) -> str:
    """Return stdout, or stderr for another exit code than 0."""
    command = [sys.executable, "-m", "runner", "collect", *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done.stderr if code else done.stdout


def objects(*words: str | Path, given: str = "") -> list[dict[str, Any]]:
    return [json.loads(line) for line in collect(*words, "--json", given=given).splitlines()]


def test_a_file_is_shown_for_a_person_and_stdin_is_read_as_json(tmp_path: Path) -> None:
    path = tmp_path / "my log.txt"
    path.write_text(LOG)
    shown = collect(path)
    assert shown.startswith(f"{path}: completed\n")
    assert "\n    final_eval: accuracy 0.9664 fraction, line 3\n" in shown
    (found,) = objects("-", given=LOG)
    assert found["final_eval"]["value"] == 0.9664


def test_a_folder_gives_one_object_for_each_file_and_a_note_for_an_unreadable_one(tmp_path: Path) -> None:
    for folder in ("deep", ".hidden"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.log").write_text(LOG)
    (tmp_path / "b\x1b[31m\n.log").write_text(LOG)
    (tmp_path / "empty.log").touch()
    (tmp_path / "outside").symlink_to("/etc")
    (tmp_path / "link.log").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "fifo")
    found = {log["log"]: log for log in objects(tmp_path)}
    assert [name for name, log in found.items() if log["status"]] == ["b\\x1b[31m .log", "deep/a.log"]
    assert "empty" in found.pop("empty.log")["notes"][0]
    assert len(found) == 2
    assert "\x1b" not in collect(tmp_path)


def test_a_path_that_is_no_log_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    for path in (tmp_path / "link", Path("/dev/zero")):
        refusal = collect(path, code=2)
        assert (refusal.count("\n"), refusal.count(str(path))) == (1, 1)


def test_a_dialect_of_the_user_is_used_and_a_bad_one_is_refused(tmp_path: Path) -> None:
    mine, log = tmp_path / "mine.yaml", tmp_path / "log"
    line = "{pattern: '^round (?P<epoch>{int}) cost (?P<train_loss>{number})', example: round 3 cost 0.25}"
    mine.write_text(f"name: mine\nabout: my program\nlines: [{line}]\n")
    log.write_text("round 1 cost 0.5\nround 2 cost 0.25\n")
    (found,) = objects(log, "--dialect", mine)
    assert (found["epochs_seen"], found["last_train_loss"]["value"]) == ([1, 2], 0.25)
    mine.write_text("name: mine\n")
    assert f"{mine}:" in collect(log, "--dialect", mine, code=2)


def test_a_run_and_a_folder_of_runs_are_no_logs(tmp_path: Path) -> None:
    run = tmp_path / "quickstart" / "a-run"
    (run / "raw").mkdir(parents=True)
    assert "--json" in collect(run, "--json", code=2)
    (run / "run.json").touch()
    assert f"{tmp_path}: " in collect(tmp_path, code=2)
