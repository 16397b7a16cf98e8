"""`runner collect` of logs: files, folders and stdin, whatever is in them."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.projects import ROOT

LOG = "Train Epoch: 1 [59520/60000 (99%)]\tLoss: 0.0639\n\naccuracy=0.9664\nFinished Training\n"


def collect(*words: str | Path, given: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "runner", "collect", *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done


def test_a_file_is_shown_for_a_person_and_stdin_is_read_as_json(tmp_path: Path) -> None:
    path = tmp_path / "my log.txt"
    path.write_text(LOG, "utf-8")
    shown = collect(path).stdout
    assert shown.splitlines()[0] == f"{path}: completed"
    assert "    final_eval: accuracy 0.9664 fraction, line 3" in shown
    (line,) = collect("-", "--json", given=LOG).stdout.splitlines()
    assert json.loads(line)["final_eval"]["value"] == 0.9664


def test_a_folder_gives_one_object_for_each_file_and_a_note_for_what_cannot_be_read(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    (logs / "deep").mkdir(parents=True)
    (logs / "deep" / "a.log").write_text(LOG, "utf-8")
    (logs / "b\x1b[31m\n.log").write_text(LOG, "utf-8")
    (logs / ".hidden").mkdir()
    (logs / ".hidden" / "a.log").write_text(LOG, "utf-8")
    (logs / "empty.log").touch()
    (logs / "outside").symlink_to("/etc")
    (logs / "link.log").symlink_to("/etc/passwd")
    os.mkfifo(logs / "fifo")
    lines = collect(logs, "--json").stdout.splitlines()
    found = {log["log"]: log for log in map(json.loads, lines)}
    notes = {name: "; ".join(log["notes"]) for name, log in found.items()}
    assert [name for name, log in found.items() if log["status"]] == ["b\\x1b[31m .log", "deep/a.log"]
    assert "empty" in notes.pop("empty.log")
    assert len(notes) == 2
    assert "\x1b" not in collect(logs).stdout


def test_what_is_no_log_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    for path in (tmp_path / "link", Path("/dev/zero")):
        said = collect(path, code=2).stderr
        assert said.count("\n") == 1
        assert str(path) in said


def test_a_dialect_of_ones_own_is_used_and_a_bad_one_is_refused(tmp_path: Path) -> None:
    mine, log = tmp_path / "mine.yaml", tmp_path / "log"
    mine.write_text(
        "name: mine\nabout: my program\nlines:\n"
        "  - {pattern: '^round (?P<epoch>{int}) cost (?P<train_loss>{number})', example: round 3 cost 0.25}\n",
        "utf-8",
    )
    log.write_text("round 1 cost 0.5\nround 2 cost 0.25\n", "utf-8")
    found = json.loads(collect(log, "--json", "--dialect", mine).stdout)
    assert (found["epochs_seen"], found["last_train_loss"]["value"]) == ([1, 2], 0.25)
    mine.write_text("name: mine\nabout: my program\n", "utf-8")
    assert f"{mine}:" in collect(log, "--dialect", mine, code=2).stderr


def test_a_run_and_a_folder_of_runs_are_no_logs(tmp_path: Path) -> None:
    (tmp_path / "quickstart" / "a-run" / "raw").mkdir(parents=True)
    assert "--json" in collect(tmp_path / "quickstart" / "a-run", "--json", code=2).stderr
    (tmp_path / "quickstart" / "a-run" / "run.json").write_text("{}")
    assert f"{tmp_path}: " in collect(tmp_path, code=2).stderr
