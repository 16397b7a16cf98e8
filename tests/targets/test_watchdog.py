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
from tests.support.launches import BEGINNING, WAIT, one_run, processes_of, until, words_are_printed
from tests.support.processes import end, lives
from tests.support.projects import Project

pytestmark = pytest.mark.real_processes

RUNNER = """
import sys
from pathlib import Path

from runner import targets
from runner.definitions import experiment as definition
from runner.definitions.plan import make_plan
from runner.records.folder import RunFolder
from runner.targets import watchdog

root, folder = Path(sys.argv[1]), RunFolder(Path(sys.argv[2]))
folder.raw.mkdir(parents=True)
run = make_plan(definition.load(root / "experiments" / "tiny.yaml", root), device="cpu").runs[0]
target = targets.load("local")
guard = watchdog.watch("local", folder.path)
for _ in target.start(target.spec(run), folder).lines():
    pass
watchdog.release(guard)
"""
MARKED = """
import os, signal, sys, time
if sys.argv[1] == "ignores":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("here", flush=True)
time.sleep(600)
"""


def start_runner(project: Project, run: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(project.root), str(run)], env=project.environment(), start_new_session=True
    )


@pytest.mark.slow
@pytest.mark.parametrize("killed", ["runner", "runner and agents"])
def test_ranks_end_with_a_runner_and_an_agent_that_are_killed(project: Project, killed: str) -> None:
    one_run(project, BEGINNING + WAIT, "1+1")
    run = project.results / "tiny" / new_id("local")
    process = start_runner(project, run)
    until(words_are_printed(project, "waits", 2))
    started = processes_of(run.name)
    agents = [one.process for one in started if one.is_agent]
    assert len(agents) == 2
    assert len(started) >= 4
    process.kill()
    end(*(agents if killed == "runner and agents" else []))
    process.wait()
    until(lambda: processes_of(run.name) == [])


@pytest.mark.slow
def test_a_run_that_ends_by_itself_needs_no_watchdog(project: Project) -> None:
    one_run(project, "import os\nprint('rank', os.environ['RANK'])\n", "1x2")
    run = project.results / "tiny" / new_id("local")
    assert start_runner(project, run).wait() == 0
    assert processes_of(run.name) == []
    assert sorted(path.read_text() for path in run.rglob("stdout.log")) == ["rank 0\n", "rank 1\n"]


def test_a_watchdog_that_somebody_killed_is_released_without_an_error(tmp_path: Path) -> None:
    guard = watchdog.watch("replay", tmp_path, ["recording=x"])
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
