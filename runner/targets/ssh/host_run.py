"""A run on a host: its supervisor, which outlives every connection, and what follows its files.

The supervisor has a session of its own. It ends the run when it is told to, or when its lease is over: for so many
seconds nobody has followed the run. Whoever connects again reads the files from where it had stopped.

Sources: prctl(2) (PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER), flock(2), proc(5).
"""

import contextlib
import ctypes
import fcntl
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

from runner.targets.clean_environment import clean_environment
from runner.targets.ssh.host_facts import base_folder
from runner.targets.ssh.host_frames import IDLE_SECONDS, Frame, Requests, send
from runner.targets.ssh.host_tidy import hold, tidy

_BLOCK = 65_536
_POLL_SECONDS = 0.1
_KILLED_SECONDS = 5.0
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def begin(request: Frame) -> Frame:
    """Start the supervisor of a run, and wait until it has started the run."""
    folder = _run(request)
    if os.path.isdir(folder):
        if _lives(folder):
            raise OSError(0, f"{folder}: the run still runs")
        shutil.rmtree(folder)
    os.makedirs(os.path.join(folder, "logs"), mode=0o700)
    os.makedirs(os.path.join(folder, "artifacts"))
    _touch(os.path.join(folder, "lease"))
    with open(os.path.join(folder, "agent.log"), "ab") as log:
        supervisor = subprocess.Popen(
            [sys.executable, "-c", request["boot"]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=folder,
            start_new_session=True,
        )
    assert supervisor.stdin and supervisor.stdout  # noqa: S101, PT018
    source = request["source"].encode()
    words = json.dumps(dict(request, do="supervise")).encode()
    supervisor.stdin.write(b"%s%s\n" % (source, words))
    supervisor.stdin.close()
    said = supervisor.stdout.readlines()
    if b"started\n" not in said:  # what this Python prints at its start stands before it
        last = [line.strip() for line in said if line.strip()][-1:]
        why = last[0].decode("utf-8", "replace") if last else "its supervisor does not start"
        raise OSError(0, why)
    return {}


def supervise(request: Frame) -> None:
    """Run torchrun, and end it with all that it has started: when told to, or when the lease is over."""
    folder = _run(request)
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)  # so that what loses its parent becomes a child of this process
    with open(os.path.join(folder, "alive"), "wb") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        for held in (folder, request["cwd"], os.path.join(request["cwd"], "data")):
            hold(held)
        env = _environment(folder, request)
        with open(os.path.join(folder, "agent.log"), "ab") as log:
            try:
                child = subprocess.Popen(
                    request["argv"],
                    cwd=request["cwd"],
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM),  # noqa: PLW1509 - one thread
                )
            except OSError as error:
                _tell(f"\n{error}\n")
                return
        _tell("\nstarted\n")
        ended = _watch(child, folder, request)
        _kill(request["mark"])
        path = os.path.join(folder, "exit.json")
        with open(f"{path}.tmp", "w") as file:
            json.dump(ended, file)
        os.rename(f"{path}.tmp", path)
    tidy(base_folder(request["folder"]))


def follow(request: Frame, requests: Requests) -> Frame:
    """Send what is new in a run's files until it has ended and all is sent; whoever asks goes on holding its lease."""
    folder = _run(request)
    if not os.path.isdir(folder):
        return {"ended": None}
    sent = dict(request["offsets"])
    while True:
        is_over = not _lives(folder)
        new = _send_new(folder, sent, requests, artifacts=is_over)
        _take(folder, requests)
        if is_over and not new:
            break
        if not new:
            time.sleep(_POLL_SECONDS)
    ended = None
    with contextlib.suppress(OSError, ValueError), open(os.path.join(folder, "exit.json"), "rb") as file:
        ended = json.loads(file.read(10_000).decode())
    return {"ended": ended}


def remove(request: Frame) -> Frame:
    """Remove the folder of a run that has ended."""
    folder = _run(request)
    if os.path.isdir(folder) and not _lives(folder):
        shutil.rmtree(folder)
    return {}


def _environment(folder: str, request: Frame) -> Frame:
    """Return this host's own variables without those of another run, with those of the run."""
    env = clean_environment("SSH_")
    own = dict(request["env"], KIT_RUN_ID=request["mark"], KIT_RUNNER_PID=str(os.getpid()))
    own["PET_LOG_DIR"], own["KIT_ARTIFACTS"] = os.path.join(folder, "logs"), os.path.join(folder, "artifacts")
    search = [own.get("PYTHONPATH"), request["cwd"], env.get("PYTHONPATH")]
    own["PYTHONPATH"] = ":".join(filter(None, search))
    return dict(env, **own)


def _tell(text: str) -> None:
    """Tell whoever started this supervisor, and let go of the pipe."""
    os.write(1, text.encode())
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)


def _watch(child: Any, folder: str, request: Frame) -> Frame:
    lease, stop = os.path.join(folder, "lease"), os.path.join(folder, "stop")
    renewed, seen = time.monotonic(), -1
    until, killed, why = None, False, ""
    while child.poll() is None:
        now = time.monotonic()
        with contextlib.suppress(OSError):
            if os.stat(lease).st_mtime_ns != seen:
                seen, renewed = os.stat(lease).st_mtime_ns, now
        if until is None and (os.path.exists(stop) or now - renewed > request["lease_seconds"]):
            is_lease = not os.path.exists(stop)
            why = "lease" if is_lease else "stop"
            until = now + request["lost_grace_seconds" if is_lease else "grace_seconds"]
            child.terminate()
        if until is not None and now > until and not killed:
            killed = True
            child.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_POLL_SECONDS)
    return {"code": child.returncode, "why": why}


def _kill(mark: str) -> None:
    """Kill every process of the run that is left, and wait until all are gone."""
    until = time.monotonic() + _KILLED_SECONDS
    while True:
        left = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_of(pid, mark)]
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not left or time.monotonic() > until:
            return
        time.sleep(0.05)


def _is_of(pid: int, mark: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"KIT_RUN_ID={mark}".encode() in file.read(1_000_000).split(b"\0")
    except OSError:
        return False


def _send_new(folder: str, sent: Frame, requests: Requests, *, artifacts: bool) -> bool:
    """Send a block of each file that has grown; artifacts only when they change no more."""
    new = False
    for name in _files(folder, artifacts=artifacts):
        with contextlib.suppress(OSError):
            descriptor = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                file.seek(sent.get(name, 0))
                data = file.read(_BLOCK)
            if data or name not in sent:  # an empty file is a fact too
                send({"file": name, "at": sent.get(name, 0)}, data)
                sent[name] = sent.get(name, 0) + len(data)
                new = new or bool(data)
                _take(folder, requests)
    return new


def _files(folder: str, *, artifacts: bool) -> list[str]:
    workers = glob.glob(os.path.join(glob.escape(folder), "logs", "*", "attempt_*", "*", "*"))
    kept = [path for path in workers if os.path.basename(path) in ("stdout.log", "stderr.log", "error.json")]
    found = ["agent.log", *(os.path.relpath(path, folder) for path in kept if os.path.isfile(path))]
    for place, _, names in os.walk(os.path.join(folder, "artifacts")) if artifacts else ():
        found += [os.path.relpath(os.path.join(place, name), folder) for name in names]
    return found


def _take(folder: str, requests: Requests) -> None:
    """Take what the runner says meanwhile: whatever it says renews the lease."""
    while taken := requests.next(wait=False):
        if taken[0] is None:
            sys.exit(0)  # the connection is gone; the supervisor waits for another one
        signal.alarm(IDLE_SECONDS)
        _touch(os.path.join(folder, "lease"))
        if taken[0]["do"] == "stop":
            _touch(os.path.join(folder, "stop"))
        send({"beat": 1})


def _lives(folder: str) -> bool:
    """Return whether a run's supervisor lives: the kernel lets go of its lock however it ends."""
    try:
        with open(os.path.join(folder, "alive"), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _run(request: Frame) -> str:
    return os.path.join(base_folder(request["folder"]), "runs", request["run"])


def _touch(path: str) -> None:
    with open(path, "ab"):
        os.utime(path)
