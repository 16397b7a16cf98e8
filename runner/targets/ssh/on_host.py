"""What runs on a host: a script of the standard library alone, sent over SSH and run by the host's Python (3.8+).

It reads requests on its stdin and answers on its stdout. Both are frames: a line of JSON, followed by as many bytes as
its `bytes` says. It keeps all that it writes in one folder: programs and data by their hash, and a folder for each run.

A run is started by a second process of the same script, its supervisor, which has a session of its own. The supervisor
ends the run when it is told to, or when its lease is over: for so many seconds nobody has followed the run. It outlives
every connection; whoever connects again reads the files from where it had stopped.

Sources: prctl(2) (PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER), flock(2), proc(5), netdevice(7) (SIOCGIFCONF).
"""

from __future__ import annotations

# It may be run by an old Python, and imports no more than it needs.
# ruff: noqa: PTH, SIM115
import contextlib
import ctypes
import fcntl
import glob
import hashlib
import json
import os
import queue
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import threading
import time
from typing import Any

HELLO = "KIT-HOST 1"
_BLOCK = 65_536
_POLL_SECONDS = 0.1
_KILLED_SECONDS = 5.0
_CONNECT_SECONDS = 4.0
_IDLE_SECONDS = 30
"""A process of this script that has heard nothing for so long ends: nobody is there any more."""
_LARGEST_HEAD = 8_000_000
_FIRST, _SECOND = 1, 36  # PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER
_SIOCGIFCONF = 0x8912
_STALE = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS")
_NAME = re.compile(r"[\w.+-]{1,200}")
_Frame = dict[str, Any] if sys.version_info >= (3, 9) else dict
_listeners: list[Any] = []


class Requests:
    """The frames of stdin, read by a thread, so that none is waited for while a run is followed."""

    def __init__(self) -> None:
        self.frames: Any = queue.Queue(16)
        threading.Thread(target=self._read, daemon=True).start()

    def next(self, *, wait: bool = True) -> Any:
        """Return the next frame with its bytes; (None, b"") at the end of stdin, None if there is none yet."""
        try:
            return self.frames.get(block=wait)
        except queue.Empty:
            return None

    def _read(self) -> None:
        source = sys.stdin.buffer
        with contextlib.suppress(OSError, ValueError):
            while True:
                line = source.readline(_LARGEST_HEAD)
                if not line:
                    break
                frame = json.loads(line.decode("utf-8"))
                self.frames.put((frame, source.read(frame.get("bytes", 0))))
        self.frames.put((None, b""))


def send(frame: _Frame, data: bytes = b"") -> None:
    """Write one frame."""
    if data:
        frame = dict(frame, bytes=len(data))
    whole = json.dumps(frame).encode() + b"\n" + data
    while whole:
        whole = whole[os.write(1, whole) :]


def check(request: _Frame) -> _Frame:
    """Describe this host: its Python, torch, clock, disk, GPUs, and the address by which SSH has reached it."""
    from importlib import metadata  # noqa: PLC0415 - costs time, and a run that goes on needs it not

    try:
        torch = metadata.version("torch")
    except metadata.PackageNotFoundError:
        torch = ""
    folder = _base(request["folder"])
    os.makedirs(folder, mode=0o700, exist_ok=True)
    probe = os.path.join(folder, f".probe-{os.getpid()}")
    with open(probe, "wb"):
        os.unlink(probe)
    disk = os.statvfs(folder)
    words = os.environ.get("SSH_CONNECTION", "").split()
    return {
        "host": socket.gethostname(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "torch": torch,
        "time": time.time(),
        "folder": folder,
        "free_bytes": disk.f_bavail * disk.f_frsize,
        "address": words[2].partition("%")[0] if len(words) == 4 else "",  # noqa: PLR2004 - sshd(8)
        "addresses": _addresses(),
        "gpus": len(glob.glob("/proc/driver/nvidia/gpus/*")),
    }


def listen(request: _Frame) -> _Frame:
    """Accept connections on a port, 0 for a free one, until this process ends."""
    server = _server(request["address"], request["port"])
    _listeners.append(server)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                server.accept()[0].close()

    threading.Thread(target=accept, daemon=True).start()
    return {"port": server.getsockname()[1]}


def port(request: _Frame) -> _Frame:
    """Name a port that is free now."""
    with contextlib.closing(_server(request["address"], request["port"])) as server:
        return {"port": server.getsockname()[1]}


def reach(request: _Frame) -> _Frame:
    """Connect to an address; say why that fails."""
    try:
        with socket.create_connection((request["address"], request["port"]), _CONNECT_SECONDS):
            return {"trouble": ""}
    except socket.timeout:
        return {"trouble": f"no answer within {_CONNECT_SECONDS:.0f} s"}
    except OSError as error:
        return {"trouble": error.strerror or str(error)}


def has(request: _Frame) -> _Frame:
    """Say which folders, each named by its hash, are there."""
    return {"has": [os.path.isdir(os.path.join(request["folder"], name)) for name in request["names"]]}


def bring(request: _Frame, requests: Requests) -> _Frame:
    """Unpack a tar archive that comes in frames, the last one empty, into a folder named by its hash."""
    place = os.path.join(request["folder"], request["name"])
    beside = f"{place}.{os.getpid()}.tmp"
    os.makedirs(beside, mode=0o700)
    try:
        found = {}
        with tarfile.open(fileobj=_Stream(requests), mode="r|") as tar:
            for member in tar:
                parts = member.name.split("/")
                source = tar.extractfile(member) if member.isfile() else None
                if source is None or member.name.startswith("/") or ".." in parts:
                    raise OSError(0, f"{member.name!r} is no file of a project")
                path = os.path.join(beside, *parts)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                found[member.name] = _unpack(source, path)
        if _hash(found) != request["sha256"]:
            raise OSError(0, "what was received is not what was sent")
        if request.get("data"):
            os.makedirs(request["data"], exist_ok=True)
            os.symlink(request["data"], os.path.join(beside, "data"))
        with contextlib.suppress(OSError):  # somebody else was faster
            os.rename(beside, place)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return {"folder": place}


def begin(request: _Frame) -> _Frame:
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
    supervisor.stdin.write(b"%d\n%s%s\n" % (len(source), source, words))
    supervisor.stdin.close()
    said = supervisor.stdout.readlines()
    if b"started\n" not in said:
        why = b"".join(said).decode("utf-8", "replace").strip() or "its supervisor does not start"
        raise OSError(0, why)
    return {"folder": folder}


def supervise(request: _Frame) -> None:
    """Run torchrun, and end it with all that it has started: when told to, or when the lease is over."""
    folder = _run(request)
    libc = ctypes.CDLL(None)
    libc.prctl(_SECOND, 1)  # so that what loses its parent becomes a child of this process
    with open(os.path.join(folder, "alive"), "wb") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        env = {name: value for name, value in os.environ.items() if name not in _STALE}
        env = {name: value for name, value in env.items() if not name.startswith(("PET_", "TORCHELASTIC_", "SSH_"))}
        own = dict(request["env"], KIT_RUN_ID=request["mark"], KIT_RUNNER_PID=str(os.getpid()))
        search = [own.get("PYTHONPATH"), request["cwd"], env.get("PYTHONPATH")]
        own["PYTHONPATH"] = ":".join(filter(None, search))
        own["PET_LOG_DIR"], own["KIT_ARTIFACTS"] = os.path.join(folder, "logs"), os.path.join(folder, "artifacts")
        with open(os.path.join(folder, "agent.log"), "ab") as log:
            try:
                child = subprocess.Popen(
                    request["argv"],
                    cwd=request["cwd"],
                    env=dict(env, **own),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=lambda: libc.prctl(_FIRST, signal.SIGTERM),  # noqa: PLW1509 - one thread
                )
            except OSError as error:
                send_text(str(error))
                return
        send_text("started\n")
        ended = _watch(child, folder, request)
        _kill(request["mark"])
        _write(os.path.join(folder, "exit.json"), json.dumps(ended).encode())


def send_text(text: str) -> None:
    """Tell whoever started this supervisor, and let go of the pipe."""
    os.write(1, text.encode())
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)


def _watch(child: Any, folder: str, request: _Frame) -> _Frame:
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


def follow(request: _Frame, requests: Requests) -> _Frame:
    """Send what is new in a run's files until it has ended and all is sent; whoever asks goes on holding its lease."""
    folder = _run(request)
    if not os.path.isdir(folder):
        return {"ended": None, "gone": True}
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


def _send_new(folder: str, sent: _Frame, requests: Requests, *, artifacts: bool) -> bool:
    """Send a block of each file that has grown; artifacts only when they change no more."""
    new = False
    for name in _files(folder, artifacts=artifacts):
        with contextlib.suppress(OSError):
            descriptor = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                file.seek(sent.get(name, 0))
                data = file.read(_BLOCK)
            if data:
                send({"file": name, "at": sent.get(name, 0)}, data)
                sent[name] = sent.get(name, 0) + len(data)
                new = True
                _take(folder, requests)
    return new


def _files(folder: str, *, artifacts: bool) -> list[str]:
    found = ["agent.log"]
    for worker in glob.glob(os.path.join(glob.escape(folder), "logs", "*", "attempt_*", "*", "*")):
        if os.path.basename(worker) in ("stdout.log", "stderr.log", "error.json") and os.path.isfile(worker):
            found.append(os.path.relpath(worker, folder))
    for place, _, names in os.walk(os.path.join(folder, "artifacts")) if artifacts else ():
        found += [os.path.relpath(os.path.join(place, name), folder) for name in names]
    return found


def _take(folder: str, requests: Requests) -> None:
    """Take what the runner says meanwhile: whatever it says renews the lease."""
    while True:
        taken = requests.next(wait=False)
        if taken is None:
            return
        if taken[0] is None:
            sys.exit(0)  # the connection is gone; the supervisor waits for another one
        signal.alarm(_IDLE_SECONDS)
        _touch(os.path.join(folder, "lease"))
        if taken[0]["do"] == "stop":
            _touch(os.path.join(folder, "stop"))
        send({"beat": 1})


def remove(request: _Frame) -> _Frame:
    """Remove the folder of a run that has ended."""
    folder = _run(request)
    if os.path.isdir(folder) and not _lives(folder):
        shutil.rmtree(folder)
    return {}


def _lives(folder: str) -> bool:
    """Whether a run's supervisor lives: the kernel lets go of its lock however it ends."""
    try:
        with open(os.path.join(folder, "alive"), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _run(request: _Frame) -> str:
    name = request["run"]
    if not _NAME.fullmatch(name) or name.startswith("."):
        raise OSError(0, f"{name!r} is no name of a run")
    return os.path.join(_base(request["folder"]), "runs", name)


def _base(folder: str) -> str:
    if folder:
        return os.path.abspath(os.path.expanduser(folder))
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "distributed-experiment-kit", "ssh")


class _Stream:
    """The bytes of frames as a file that is read once; an empty frame is its end."""

    def __init__(self, requests: Requests) -> None:
        self._requests, self._rest, self._is_over = requests, b"", False

    def read(self, size: int) -> bytes:
        while len(self._rest) < size and not self._is_over:
            frame, data = self._requests.next()
            signal.alarm(_IDLE_SECONDS)
            if frame is None:
                raise OSError(0, "the connection was lost")
            self._rest += data
            self._is_over = not data
        block, self._rest = self._rest[:size], self._rest[size:]
        return block


def _unpack(source: Any, path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "wb") as target:
        while True:
            block = source.read(1_000_000)
            if not block:
                return digest.hexdigest()
            digest.update(block)
            target.write(block)


def _hash(files: dict) -> str:  # type: ignore[type-arg] - Python 3.8
    """Hash files by their paths and their own hashes (runner/targets/ssh/cargo.py does the same)."""
    return hashlib.sha256("".join(f"{name}\0{files[name]}\n" for name in sorted(files)).encode()).hexdigest()


def _server(address: str, number: int) -> Any:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    server = socket.socket(family, socket.SOCK_STREAM)
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((address, number))
        server.listen(64)
    except OSError:
        server.close()
        raise
    return server


def _addresses() -> list:  # type: ignore[type-arg] - Python 3.8
    """List the addresses of this host, each with its interface."""
    found = []
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        buffer = ctypes.create_string_buffer(40 * 1024)
        asked = struct.pack("iL", len(buffer), ctypes.addressof(buffer))
        size = struct.unpack("iL", fcntl.ioctl(probe, _SIOCGIFCONF, asked))[0]
        for start in range(0, size, 40):
            name = buffer.raw[start : start + 16].partition(b"\0")[0].decode().partition(":")[0]
            found.append([socket.inet_ntoa(buffer.raw[start + 20 : start + 24]), name])
    with contextlib.suppress(OSError), open("/proc/net/if_inet6", encoding="ascii") as file:
        for line in file:
            words = line.split()
            found.append([socket.inet_ntop(socket.AF_INET6, bytes.fromhex(words[0])), words[5]])
    return found


def _touch(path: str) -> None:
    with open(path, "ab"):
        os.utime(path)


def _write(path: str, data: bytes) -> None:
    with open(f"{path}.tmp", "wb") as file:
        file.write(data)
    os.rename(f"{path}.tmp", path)


def main() -> None:
    """Answer requests until stdin ends."""
    requests = Requests()
    frame, _ = requests.next()
    if frame and frame["do"] == "supervise":
        supervise(frame)
        return
    os.write(1, f"\n{HELLO}\n".encode())
    while frame is not None:
        signal.alarm(_IDLE_SECONDS)
        do = frame["do"]
        if do not in ("hello", "bytes", "ping", "stop"):  # what is left of a request that was refused or has been answered
            answer = _answer(frame, requests)
            send({"answer": answer})
        frame, _ = requests.next()


def _answer(frame: _Frame, requests: Requests) -> _Frame:
    alone = {"check": check, "listen": listen, "port": port, "reach": reach, "has": has}
    alone.update(begin=begin, remove=remove)
    fed = {"bring": bring, "follow": follow}
    do = frame["do"]
    try:
        return alone[do](frame) if do in alone else fed[do](frame, requests)
    except (OSError, ValueError, KeyError, tarfile.TarError) as error:
        why = f"{getattr(error, 'strerror', None) or error}"
        name = getattr(error, "filename", None)
        return {"error": f"{name}: {why}" if name else why}


if __name__ == "__main__":
    main()
