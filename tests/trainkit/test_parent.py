"""Ranks end with the launcher that started them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from runner.core.ports import free_port
from tests.support.launches import until
from tests.support.processes import children_of, end, lives

ROOT = Path(__file__).parents[2]
ENV = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
SLEEPER = """
import sys, time
from argparse import Namespace
from pathlib import Path
if sys.argv[1] == "early":
    import experiments
    Path(sys.argv[2], "ready-" + __import__("os").environ["RANK"]).touch()
    time.sleep(600)
from trainkit.run import running
with running("late", Namespace(device="cpu", threads=1, backend="gloo")) as run:
    Path(sys.argv[2], f"ready-{run.rank}").touch()
    time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.real_processes
@pytest.mark.parametrize("moment", ["early", "training"])
def test_ranks_end_within_seconds_when_their_agent_is_killed(moment: str, tmp_path: Path) -> None:
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    launcher = ["-m", "torch.distributed.run", f"--master-port={free_port()}", "--nproc-per-node", "2"]
    command = [sys.executable, *launcher, str(tmp_path / "sleeper.py"), moment, str(tmp_path)]
    with subprocess.Popen(command, cwd=tmp_path, env=ENV, stdout=subprocess.DEVNULL) as agent:
        ranks: list[psutil.Process] = []
        try:
            until(lambda: len(list(tmp_path.glob("ready-*"))) == 2)
            ranks = children_of(agent.pid, "sleeper.py")
            assert len(ranks) == 2
            agent.kill()
            until(lambda: not any(lives(rank) for rank in ranks), 10)
        finally:
            agent.kill()
            end(*ranks)


@pytest.mark.slow
@pytest.mark.real_processes
def test_processes_of_spawn_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    words = ["-m", "experiments.mnist.spawn", "--dataset", "digits", "--epochs", "100000", "--device", "cpu"]
    lines = tmp_path / "stdout"
    with lines.open("wb") as out, subprocess.Popen([sys.executable, *words], cwd=ROOT, env=ENV, stdout=out) as parent:
        children: list[psutil.Process] = []
        try:
            until(lambda: lines.read_bytes().count(b'"key": "epoch_start"') >= 2)
            children = children_of(parent.pid, "spawn_main")
            assert len(children) == 2
            parent.kill()
            until(lambda: not any(lives(rank) for rank in children), 10)
        finally:
            parent.kill()
            end(*children)


ASK = """
import ctypes
from trainkit.parent import end_with_launcher
end_with_launcher()
told = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(told))  # PR_GET_PDEATHSIG
print(told.value)
"""


def test_a_program_that_a_person_started_is_not_tied_to_the_shell() -> None:
    env = {name: value for name, value in os.environ.items() if name != "TORCHELASTIC_RUN_ID"}
    for extra, expected in (({}, "0"), ({"TORCHELASTIC_RUN_ID": "x"}, str(int(signal.SIGKILL)))):
        done = subprocess.run([sys.executable, "-c", ASK], cwd=ROOT, env={**env, **extra}, capture_output=True,
                              text=True, check=True)  # fmt: skip
        assert done.stdout.strip() == expected
