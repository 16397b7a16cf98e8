"""A killed runner leaves no process: those of its run are found and ended."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runner.records.folder import new_id
from runner.targets import watchdog
from runner.targets.children import end_marked, end_orphans, marks
from tests.support.processes import lives

pytestmark = pytest.mark.real_processes
MARKED = """
import signal, sys, time

def asked(*_):
    print("asked", flush=True)
    if sys.argv[1] == "ends":
        sys.exit()

signal.signal(signal.SIGTERM, asked)
print("here", flush=True)
time.sleep(600)
"""


def test_a_watchdog_that_somebody_killed_is_released_without_an_error(tmp_path: Path) -> None:
    guard = watchdog.watch("local", tmp_path)
    guard.kill()
    guard.wait()
    watchdog.release(guard)


@pytest.mark.parametrize(("how", "grace_seconds"), [("ends", 3_600), ("ignores", 0.5)])
def test_a_marked_process_is_asked_to_end_and_then_killed(how: str, grace_seconds: float) -> None:
    run = new_id("local")
    env = {**os.environ, **marks(f"{run}/node0")}
    process = subprocess.Popen([sys.executable, "-c", MARKED, how], env=env, stdout=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.readline() == b"here\n"
    end_orphans(run, 0)
    assert process.poll() is None, "its runner, this process, lives"
    end_marked(run, grace_seconds)
    assert process.communicate()[0] == b"asked\n"


def test_a_process_without_an_environment_is_found_by_its_output_file(tmp_path: Path) -> None:
    run = new_id("local")
    folder = tmp_path / run / "raw" / "node1" / "x"
    folder.mkdir(parents=True)
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    with (folder / "stdout.log").open("w") as output, (tmp_path / "stdout.log").open("w") as other:
        titled = subprocess.Popen(command, env={}, stdout=output)
        stranger = subprocess.Popen(command, env={}, stdout=other)
    end_marked(f"{run}/node10", 2)
    assert titled.poll() is None
    end_marked(f"{run}/node1", 2)
    titled.wait()
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


DAEMON = """
import subprocess, sys
from runner.core.parent import adopt
from runner.targets.children import end_marked
beside = subprocess.Popen(["sleep", "600"])
adopt(orphans=True)
forks = "setsid sh -c 'env -i sleep 600 >/dev/null 2>&1 & echo $!'"
daemon = int(subprocess.run(["sh", "-c", forks], stdout=subprocess.PIPE).stdout)
end_marked("no-run", 2, {beside.pid})
print(daemon, beside.poll())
beside.kill()
"""


def test_a_daemon_that_leaves_its_parents_ends_with_the_run_and_other_children_stay() -> None:
    done = subprocess.run([sys.executable, "-c", DAEMON], capture_output=True, check=True, text=True)
    pid, code = done.stdout.split()
    assert code == "None"
    assert not lives(int(pid))
