"""A runner that is killed leaves nothing: whatever it started is found by the run's folder and ended."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from runner.records.folder import new_id
from runner.targets import watchdog
from runner.targets.children import end_marked, end_orphans, marks
from tests.support.launches import until
from tests.support.processes import lives

pytestmark = pytest.mark.real_processes
MARKED = """
import os, signal, sys, time
if sys.argv[1] == "ignores":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("here", flush=True)
time.sleep(600)
"""


def test_a_watchdog_that_somebody_killed_is_released_without_an_error(tmp_path: Path) -> None:
    guard = watchdog.watch("local", tmp_path)
    guard.kill()
    guard.wait()
    watchdog.release(guard)


def marked(mark: str, how: str = "ends") -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", MARKED, how]
    process = subprocess.Popen(command, env={**os.environ, **marks(mark)}, stdout=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.readline() == b"here\n"
    process.stdout.close()
    return process


@pytest.mark.parametrize(("how", "grace_seconds"), [("ends", 3_600), ("ignores", 0.5)])
def test_a_marked_process_is_asked_to_end_and_then_killed(how: str, grace_seconds: float) -> None:
    mark = new_id("local")
    process = marked(mark, how)
    began = time.monotonic()
    end_marked(mark, grace_seconds)
    process.wait()
    assert (time.monotonic() - began >= grace_seconds) == (how == "ignores")


def test_a_run_s_processes_are_orphans_only_once_their_runner_is_dead() -> None:
    run = new_id("local")
    own = marked(f"{run}/node0")  # of this process, which lives
    script = (
        "import os, subprocess, sys\nfrom runner.targets.children import marks\n"
        "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], "
        f"env={{**os.environ, **marks('{run}/node1')}}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    orphan = psutil.Process(int(done.stdout))
    end_orphans(run, 2)
    until(lambda: not lives(orphan))
    assert own.poll() is None
    own.kill()
    own.wait()


def test_a_process_without_an_environment_is_found_by_the_file_of_the_run_that_it_prints_to(tmp_path: Path) -> None:
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
