"""Python processes forked from one that has imported torch, for tests that do not test the start itself.

Importing torch takes seconds of a core in every process, far longer than most programs of the tests run. The server
imports it once; `fork_client.py` stands where `python` would: it hands its arguments, environment, folder and open
files to the server, which forks a child, and it passes signals on and ends as the child ends. So a real runner starts a
real torchrun agent, which starts real ranks. What sees the difference (marks in /proc, limits set before the start, the
moments of Python's own start) is tested with real processes.
"""

import atexit
import builtins
import gc
import io
import json
import multiprocessing.process
import os
import runpy
import selectors
import shlex
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "KIT_FORK_SERVER"
"""The variable that names the folder with the server's socket and its commands."""
PRELOADED = (
    "torch",
    "torch.distributed.run",
    "torch.nn.parallel",
    "torch.multiprocessing.spawn",
    "torchvision",
    "transformers",
    "transformers.models.bert.modeling_bert",
    "sklearn.datasets",
    "psutil",
    "runner.cli",
    "runner.execution.run",
    "runner.targets.local",
    "runner.targets.watchdog",
    "runner.report.summarize",
)
SILENT_SECONDS = 120
"""So long a client may be silent within its request; one that was stopped never goes on, and all others wait."""
COMMANDS = {"python": "", "runner": "runner", "torchrun": "torchrun"}


SETTINGS = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"}
"""Of the server's environment; what it forks has that of the client, but writes no byte code either."""


class ForkServer:
    """The server of a test run, and the folder with commands that stand for `python`, `runner` and `torchrun`."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kit-fork-")
        folder = Path(self._folder.name)
        real = Path(sys.executable)
        client = shlex.join([str(real), "-SEs", str(Path(__file__).with_name("fork_client.py"))])
        for name, script in COMMANDS.items():
            path = folder / name
            words = shlex.join([str(folder / "socket"), str(real), *([str(real.with_name(script))] if script else [])])
            path.write_text(f'#!/bin/sh\nexec {client} {words} "$@"\n')
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        os.environ[FOLDER] = str(folder)
        self._process = subprocess.Popen(
            [real, "-m", __name__, folder],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **SETTINGS},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout
        assert self._process.stdout.readline() == b"listening\n"

    def close(self) -> None:
        """End the server, and with it what it has forked."""
        self._process.communicate()
        self._folder.cleanup()


def command(name: str) -> str:
    """Return the path of a command whose processes are forked: `python`, `runner` or `torchrun`."""
    return str(Path(os.environ[FOLDER]) / name)


class _Server:
    """Forks a child for each client, tells the client how it ended, and passes the client's signals on."""

    def __init__(self, folder: str) -> None:
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(Path(folder, "socket")))
        self._listening.listen(64)
        self._waking, self._woken = os.pipe2(os.O_NONBLOCK)
        signal.set_wakeup_fd(self._woken)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._clients: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        for file in (self._listening, sys.stdin.buffer, self._waking):
            self._selector.register(file, selectors.EVENT_READ)
        os.write(1, b"listening\n")
        os.dup2(2, 1)

    def serve(self) -> dict[str, Any]:
        """Serve until stdin is closed; return only in a child, with what it is to run."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listening:
                    if asked := self._accept():
                        return asked
                elif key.fileobj is sys.stdin.buffer:
                    for pid in self._clients:
                        os.kill(pid, signal.SIGKILL)
                    os._exit(0)
                elif key.fileobj == self._waking:
                    os.read(self._waking, 4096)
                    self._reap()
                elif key.data in self._clients:
                    self._signal(key.data)

    def _accept(self) -> dict[str, Any] | None:
        """Read a request and fork; return it in the child."""
        client, _ = self._listening.accept()
        asked, files = _read(client)
        if asked:
            _import(asked["python"])
            if not (pid := os.fork()):
                self._leave(client)
                return {**asked, "files": files}
            self._clients[pid] = client
            self._selector.register(client, selectors.EVENT_READ, pid)
        for file in files:
            os.close(file)
        return None

    def _leave(self, client: socket.socket) -> None:
        """In a child: close what is the server's."""
        signal.set_wakeup_fd(-1)
        self._selector.close()
        for connection in (self._listening, client, *self._clients.values()):
            connection.close()
        os.close(self._waking)
        os.close(self._woken)

    def _reap(self) -> None:
        while self._clients:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            client = self._clients.pop(pid)
            with suppress(KeyError):  # it is gone
                self._selector.unregister(client)
            with suppress(OSError):
                client.sendall(status.to_bytes(4, "little"))
            client.close()

    def _signal(self, pid: int) -> None:
        """Pass a client's signal on; a client that is gone was killed, and so is its child."""
        try:
            number = self._clients[pid].recv(1)
        except OSError:
            number = b""
        if not number:
            self._selector.unregister(self._clients[pid])
        os.kill(pid, number[0] if number else signal.SIGKILL)


def _read(client: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """Read a request: its length with three open files, then JSON; None if the client was killed or stopped."""
    files: list[int] = []
    client.settimeout(SILENT_SECONDS)
    with suppress(OSError, ValueError):
        begun, files, _, _ = socket.recv_fds(client, 8, 3)
        text = b""
        while more := client.recv(int.from_bytes(begun, "little") - len(text)):
            text += more
        return json.loads(text), files
    return None, files


def _import(python: str) -> None:
    """Import what is preloaded, at the first request."""
    if sys.executable == python:
        return
    import multiprocessing.spawn  # noqa: F401 - it keeps the real Python: it hands open files to its children

    sys.executable = python
    for name in PRELOADED:
        __import__(name)
    gc.collect()
    gc.freeze()  # a child's collector would copy every page


def become(asked: dict[str, Any]) -> list[str]:
    """Make this child what the client is: its session, open files, folder, environment; return its arguments."""
    os.setsid()
    for number in (signal.SIGCHLD, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.default_int_handler)
    for number, file in enumerate(asked["files"]):
        os.dup2(file, number)
        os.close(file)
    os.chdir(asked["cwd"])
    multiprocessing.process.ORIGINAL_DIR = asked["cwd"]  # where a process that it spawns begins
    os.environ.clear()
    os.environ.update(asked["env"])
    tempfile.tempdir = None  # an import may have asked for the server's
    words = list(asked["argv"])
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    while words and words[0] == "-u":
        unbuffered, words = True, words[1:]
    _open_standard_files(unbuffered=unbuffered)
    own = [path for path in sys.path if path not in ("", str(ROOT))]
    sys.path[:] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path] + own
    import torch  # here it is a look-up

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1))
    with suppress(ImportError):  # as Python's own start does
        import sitecustomize  # noqa: F401
    return words


def _open_standard_files(*, unbuffered: bool) -> None:
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    for number, name in ((1, "stdout"), (2, "stderr")):
        raw = io.FileIO(number, "w", closefd=False)
        plain = unbuffered or number == 2
        file = io.TextIOWrapper(
            raw if unbuffered else io.BufferedWriter(raw),  # type: ignore[arg-type]
            encoding="utf-8",
            errors="strict" if number == 1 else "backslashreplace",
            line_buffering=plain or os.isatty(number),
            write_through=plain,
        )
        setattr(sys, name, file)
        setattr(sys, f"__{name}__", file)


def execute(words: list[str]) -> None:
    """Run what follows `python` on a command line: -m and a module, -c and a text, or a file."""
    how, *rest = words
    if how == "-m":
        sys.argv = rest
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
        sys.modules.pop(rest[0], None)  # preloaded: it is to run once more, as the main module
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif how == "-c":
        sys.argv = ["-c", *rest[1:]]
        sys.path.insert(0, "")
        builtins.exec(rest[0], vars(sys.modules["__main__"]))  # noqa: S102 - as the interpreter does
    else:
        sys.argv = words
        sys.path.insert(0, str(Path(how).parent))
        runpy.run_path(str(Path(how).absolute()), run_name="__main__")


def end(words: list[str]) -> None:
    """Run it, and end as Python does, but for taking apart all that was imported: that takes longer than most runs."""
    code: Any = 0
    try:
        execute(words)
    except SystemExit as ended:
        code = ended.code
    except BaseException as error:  # noqa: BLE001 - as the interpreter does at its top
        sys.excepthook(type(error), error, error.__traceback__)
        code = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    if code is not None and not isinstance(code, int):
        sys.stderr.write(f"{code}\n")
        code = 1
    threading._shutdown()  # as Python does: it ends idle workers of pools, and waits for other threads
    atexit._run_exitfuncs()
    with suppress(BrokenPipeError):
        sys.stdout.flush()
    if code == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit((code or 0) & 0xFF)


if __name__ == "__main__":
    end(become(_Server(sys.argv[1]).serve()))
