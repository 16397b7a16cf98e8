"""Ranks end with their launcher."""

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


SPAWN = ["-m", "experiments.mnist.spawn", "--dataset", "digits", "--epochs", "100000", "--device", "cpu"]


@pytest.mark.slow
@pytest.mark.real_processes
@pytest.mark.parametrize("moment", ["early", "training", "spawn"])
def test_ranks_end_within_seconds_when_their_parent_is_killed(moment: str, tmp_path: Path) -> None:
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    torchrun = ["-m", "torch.distributed.run", f"--master-port={free_port()}", "--nproc-per-node", "2"]
    words = SPAWN if moment == "spawn" else [*torchrun, str(tmp_path / "sleeper.py"), moment, str(tmp_path)]
    lines = tmp_path / "stdout"

    def have_begun() -> bool:
        return len(list(tmp_path.glob("ready-*"))) == 2 or lines.read_bytes().count(b'"key": "epoch_start"') >= 2

    with lines.open("wb") as out, subprocess.Popen([sys.executable, *words], cwd=ROOT, env=ENV, stdout=out) as parent:
        ranks: list[psutil.Process] = []
        try:
            until(have_begun)
            ranks = children_of(parent.pid, "spawn_main" if moment == "spawn" else "sleeper.py")
            assert len(ranks) == 2
            parent.kill()
            until(lambda: not any(lives(rank) for rank in ranks), 10)
        finally:
            parent.kill()
            end(*ranks)


ASK = """
import ctypes
from trainkit.parent import end_with_launcher
end_with_launcher()
told = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(told))  # PR_GET_PDEATHSIG
print(told.value)
"""


def test_a_program_started_by_hand_is_not_tied_to_its_shell() -> None:
    env = {name: value for name, value in os.environ.items() if name != "TORCHELASTIC_RUN_ID"}
    for extra, expected in (({}, 0), ({"TORCHELASTIC_RUN_ID": "x"}, signal.SIGKILL)):
        told = subprocess.check_output([sys.executable, "-c", ASK], cwd=ROOT, env={**env, **extra})
        assert int(told) == expected
