"""Processes that the kit starts import no module from their working directory."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from runner.records.folder import new_id
from runner.targets import node_view
from runner.targets.ssh.openssh import BOOT
from tests.support.launches import until
from tests.support.processes import lives
from tests.support.projects import ROOT

pytestmark = pytest.mark.real_processes

NAMES = "runner trainkit base64 json logging queue secrets socket threading".split()
ABANDONED = """
import os, subprocess, sys
from pathlib import Path

from runner.targets import watchdog
from runner.targets.children import marks

run, null = Path(sys.argv[1]), subprocess.DEVNULL
child = subprocess.Popen(["sleep", "600"], env={**os.environ, **marks(run.name)}, stdout=null, stderr=null)
watchdog.watch("local", run)
print(child.pid, flush=True)
os._exit(0)
"""


@pytest.fixture
def folder(weird_path: Path) -> Path:
    for name in NAMES:
        (weird_path / f"{name}.py").write_text("raise SystemExit('this is not the module that was meant')\n")
    return weird_path


def test_a_watchdog_cleans_up(folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "elsewhere" / "abandoned.py"
    script.parent.mkdir()
    script.write_text(ABANDONED)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    pid = subprocess.check_output([sys.executable, script, folder / new_id("local")], cwd=folder, env=env)
    child = psutil.Process(int(pid))
    until(lambda: not lives(child))


def test_processes_are_looked_at(folder: Path) -> None:
    words = [*node_view.command_inside(abort=False), "a mark that nobody has"]
    assert node_view.read(subprocess.check_output(words, cwd=folder)).ranks == []


def test_a_host_loads_what_it_is_sent(folder: Path) -> None:
    words = [sys.executable, "-c", BOOT]
    assert subprocess.check_output(words, cwd=folder, input=b"print('loaded')") == b"loaded\n"
