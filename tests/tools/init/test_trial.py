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
    planned = folder.runner("plan", "train")
    assert planned.code == 0, planned.snapshot
    return (folder.root / "experiments/train.yaml").read_text() + done.stderr


def refused(folder: Project, files: dict[str, str]) -> str:
    """Try a script that cannot be run, and return the line that says so."""
    write(folder.root, files)
    before = folder.written()
    done = folder.runner("init", "train.py")
    assert done.code == 2, done.snapshot
    assert done.stdout == ""
    assert folder.written() == before
    said = done.stderr.splitlines()
    assert [row.partition(": ")[0] for row in said] == ["project", "script", "starts", "error"], done.stderr
    return said[-1]


def kept(tmp_path: Path) -> list[Path]:
    return list(tmp_path.glob("runner-init-*"))


def test_a_script_that_fails_is_shown_with_its_last_error_and_all_of_its_output(
    folder: Project, tmp_path: Path
) -> None:
    said = refused(folder, {"train.py": "print('first line')\nopen('data/train.bin')\n"})
    assert "train.py failed in its first run: FileNotFoundError: [Errno 2] No such file or directory" in said
    assert "(train.py:2: open('data/train.bin'))" in said
    assert "; hint missing-file: A file of the program is not there" in said
    assert said.endswith("; --no-try leaves this run out")
    (scratch,) = kept(tmp_path)
    (stdout,) = scratch.rglob("node0-rank0.stdout")
    assert str(stdout.parent) in said
    assert stdout.read_text() == "first line\n"


@pytest.mark.slow
def test_without_torch_nothing_is_started(folder: Project) -> None:
    write(folder.root, {"train.py": TRAINS})
    command = [sys.executable, "-c", NO_TORCH, "init"]
    done = complete(command, folder.root, folder.environment())
    assert done.code == 2
    assert done.stderr.splitlines()[-1].endswith("pip install 'distributed-experiment-kit[torch]'")
    assert folder.written() == {"train.py"}
    assert complete([*command, "--no-try"], folder.root, folder.environment()).code == 0


@pytest.mark.slow
def test_a_long_run_is_ended_with_all_that_it_started_and_what_it_printed_is_read(
    folder: Project, tmp_path: Path
) -> None:
    seconds = round(patient(3))
    said = init(folder, SLOW, "--try-seconds", str(seconds))
    assert "dialect: epoch-losses  # reads its output: loss, epochs, number of epochs" in said
    ended = re.search(r"ended: by the runner after (\d+) s, before it was done", said)
    assert ended  # it takes its time to end
    assert int(ended[1]) >= seconds
    assert "note: it left pids.txt: if the script goes on from there" in said
    for pid in map(int, (folder.root / "pids.txt").read_text().split()):
        assert not lives(pid)
    assert kept(tmp_path) == []


def test_ctrl_c_ends_the_run_and_writes_nothing(folder: Project, tmp_path: Path) -> None:
    write(folder.root, {"train.py": SLOW})
    process = folder.start("init", "train.py")
    pids = folder.root / "pids.txt"
    until(lambda: pids.is_file() and pids.read_text(), 30)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130, said
    assert said.endswith("interrupted\n")
    for pid in map(int, pids.read_text().split()):
        assert not lives(pid)
    assert folder.written() == {"train.py", "pids.txt"}
    assert kept(tmp_path) == []


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
