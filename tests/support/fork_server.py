"""Programs started from a process that has imported torch once, for tests that do not test the launch itself.

Importing torch takes seconds in every process, far longer than these programs train. The server imports it once and
forks a child for each rank, with torchrun's environment. What torchrun adds (the agent, its messages, restarts) is not
here: tests of the launch start a real torchrun, and one test compares the two.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
GRACE_SECONDS = 10.0
"""What the other ranks get after one has failed; torchrun's own is 30."""
PRELOADED = (
    "torch",
    "torch.distributed",
    "torch.nn.parallel",
    "torch.multiprocessing.spawn",
    "torchvision",
    "transformers",
)


class ForkServer:
    """The server, and how a test talks to it."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.fork_server"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def run(
        self, program: list[str], processes: int | None, env: dict[str, str], seconds: float = 120
    ) -> tuple[int, bytes, bytes]:
        """Run `-m module words` or `file words` in so many ranks, or alone; return exit code, stdout and stderr."""
        with tempfile.TemporaryDirectory() as folder:
            asked = {"program": program, "processes": processes, "env": env, "folder": folder, "seconds": seconds}
            assert self._process.stdin
            assert self._process.stdout
            self._process.stdin.write(json.dumps(asked).encode() + b"\n")
            self._process.stdin.flush()
            code = int(self._process.stdout.readline())
            return code, Path(folder, "stdout").read_bytes(), Path(folder, "stderr").read_bytes()

    def close(self) -> None:
        """End the server."""
        self._process.communicate()


def serve() -> None:
    """Answer requests, one line each, until the other side closes."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # nothing that a library prints may look like an answer
    for name in PRELOADED:
        __import__(name)
    for line in sys.stdin.buffer:
        answers.write(f"{_run(json.loads(line))}\n")
        answers.flush()


def _run(asked: dict[str, Any]) -> int:
    """Fork the ranks and wait for them; the first failure ends the others after a grace."""
    count = asked["processes"] or 1
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port())} if asked["processes"] else {}
    running = {_fork(rank, count, place if asked["processes"] else None, asked) for rank in range(count)}
    code, deadline = 0, time.monotonic() + asked["seconds"]
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid in running:
            running.remove(pid)
            ended = os.waitstatus_to_exitcode(status)
            if ended and not code:
                code, deadline = (1 if asked["processes"] else ended), time.monotonic() + GRACE_SECONDS
        if time.monotonic() > deadline:
            for one in running:
                os.kill(one, signal.SIGKILL)
            code = code or 124
        time.sleep(0.002)
    return code


def _fork(rank: int, count: int, place: dict[str, str] | None, asked: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.environ.update(asked["env"])
        if place is not None:
            numbers = {
                "RANK": rank,
                "LOCAL_RANK": rank,
                "WORLD_SIZE": count,
                "LOCAL_WORLD_SIZE": count,
                "GROUP_RANK": 0,
            }
            os.environ.update({**place, **{name: str(number) for name, number in numbers.items()}})
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(Path(asked["folder"], name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        code = _execute(asked["program"])
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # no clean-up of the server's own


def _execute(program: list[str]) -> int:
    """Run a module or a file as `__main__`; return what Python would exit with."""
    try:
        if program[0] == "-m":
            sys.argv = program[1:]
            runpy.run_module(program[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = program
            runpy.run_path(program[0], run_name="__main__")
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        sys.stderr.write(f"{ended.code}\n")
        return 1
    except BaseException:  # noqa: BLE001 - as the interpreter does at its top
        traceback.print_exc()
        return 1
    return 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    serve()
