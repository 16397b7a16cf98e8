"""The first run: what it starts, how it ends, and what is made of its output."""

import re
import signal
import sys
from pathlib import Path

import pytest

from tests.support.launches import until
from tests.support.patience import patient
from tests.support.processes import lives
from tests.support.projects import OK, Project, complete
from tests.tools.init.test_scripts import TRAINS, write

SLOW = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
open("pids.txt", "w").write(f"{os.getpid()} {child.pid}")
for epoch in range(1, 1000):
    print(f"Epoch {epoch}/1000, Loss: {1 / epoch:.4f}")
    time.sleep(0.1)
loss.backward()
"""
NO_TORCH = "import sys; sys.modules['torch'] = None; sys.argv[0] = 'runner'; from runner.cli import main; main()"


def init(folder: Project, source: str, *words: str) -> str:
    """Try a script, and return its definition and what was said."""
    write(folder.root, {"train.py": source})
    done = folder.runner("init", "train.py", *words)
    assert done.code == 0, done.snapshot
    assert folder.runner("plan", "train").code == 0
    return (folder.root / "experiments/train.yaml").read_text() + done.stderr


def assert_no_trace(folder: Project, tmp_path: Path) -> None:
    """Assert that the first run's processes and its folder are gone."""
    assert not any(map(lives, map(int, (folder.root / "pids.txt").read_text().split())))
    assert not list(tmp_path.glob("runner-init-*"))


def test_a_script_that_fails_is_shown_with_its_last_error_and_its_output(folder: Project, tmp_path: Path) -> None:
    write(folder.root, {"train.py": "print('first line')\nopen('data/train.bin')\n"})
    done = folder.runner("init", "train.py")
    assert (done.code, done.stdout, folder.written()) == (2, "", {"train.py"}), done.snapshot
    said = done.stderr.splitlines()[-1]
    (stdout,) = tmp_path.glob("runner-init-*/**/node0-rank0.stdout")
    for part in ("FileNotFoundError: [Errno 2]", "(train.py:2: open(", "hint missing-file", "--no-try", stdout.parent):
        assert str(part) in said
    assert stdout.read_text() == "first line\n"


@pytest.mark.slow
def test_without_torch_nothing_is_started(folder: Project) -> None:
    write(folder.root, {"train.py": TRAINS})
    done = complete([sys.executable, "-c", NO_TORCH, "init"], folder.root, folder.environment())
    assert (done.code, "pip install" in done.stderr, folder.written()) == (2, True, {"train.py"})


@pytest.mark.slow
def test_a_long_run_is_ended_with_all_that_it_started_and_what_it_printed_is_read(
    folder: Project, tmp_path: Path
) -> None:
    seconds = round(patient(3))
    said = init(folder, SLOW, "--try-seconds", str(seconds))
    assert "dialect: epoch-losses  # reads loss, epochs" in said
    (ended,) = re.findall(r"stopped after (\d+) s", said)
    assert int(ended) >= seconds
    assert "left pids.txt" in said
    assert_no_trace(folder, tmp_path)


def test_ctrl_c_ends_the_run_and_writes_nothing(folder: Project, tmp_path: Path) -> None:
    write(folder.root, {"train.py": SLOW})
    process = folder.start("init", "train.py")
    pids = folder.root / "pids.txt"
    until(lambda: pids.is_file() and pids.read_text(), 30)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert (process.returncode, said.splitlines()[-1]) == (130, "interrupted")
    assert folder.written() == {"train.py", "pids.txt"}
    assert_no_trace(folder, tmp_path)


SPAWNS = """
import os
import socket
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def worker(rank, world_size, port):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=port)
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    total = torch.ones(1)
    dist.all_reduce(total)
    if rank == 0:
        open("met.txt", "w").write(str(total.item()))
    dist.destroy_process_group()

if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    mp.spawn(worker, args=(2, port), nprocs=2)
"""


@pytest.mark.slow
@pytest.mark.real_processes
def test_a_script_that_starts_its_own_processes_runs_as_it_does_by_hand(folder: Project) -> None:
    folder.forked = False
    init(folder, SPAWNS)
    assert (folder.root / "met.txt").read_text() == "2.0", "rank 0 has met rank 1"


def test_event_lines_need_no_dialect(folder: Project) -> None:
    written = init(folder, OK.replace("\n    ", "\n").lstrip())
    assert "dialect" not in written.partition("project: ")[0]
    assert "measure: train_seconds\n" in written
