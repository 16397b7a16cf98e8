"""Starts the processes of a check as forks of one that has torch imported, which saves most of the time of a check."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from runner.tools.check import processes


class Forked:
    """A process of the server, as far as a check needs `Popen`."""

    def __init__(self, server: "WarmServer", pid: int) -> None:
        self._server, self.pid = server, pid

    def poll(self) -> int | None:
        code: int | None = self._server.ask(poll=self.pid)
        return code

    def wait(self) -> int:
        while (code := self.poll()) is None:
            time.sleep(0.02)
        return code


class WarmServer:
    """A process that has torch imported; a context manager that ends it."""

    def __enter__(self) -> "WarmServer":  # noqa: PYI034 - Self is of Python 3.11
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("warm_server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def ask(self, **request: Any) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        with self._lock:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def start(self, job: processes.Job, rank: int, port: int) -> Any:
        """Stand in for `processes.start`; a program that starts its own processes is started as it is."""
        if job.alone or job.words[0] == "-m":
            return _cold(job, rank, port)
        output = str(job.folder / f"output-{rank}.txt")
        request = {"words": job.words, "cwd": str(job.root), "env": job.environment(rank, port), "output": output}
        return Forked(self, self.ask(start=request))


_cold = processes.start
