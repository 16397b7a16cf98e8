"""What runs on a host: sent over SSH, with the modules that it imports, and run by the host's Python as it is.

It answers requests, a line of JSON each, until stdin ends. `begin` starts the supervisor of a run, which outlives every
connection: it ends the run when it is told to, or when its lease is over, which every `beat` of the runner renews. All
files are in one folder: `programs` and `data` by their hash, and a folder in `runs` for each node of a run.

Sources: prctl(2) (PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER), flock(2), proc(5), netdevice(7) (SIOCGIFCONF).
"""

import contextlib
import ctypes
import errno
import fcntl
import glob
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from typing import Any

from runner.core.ports import free_port
from runner.targets.clean_environment import clean_environment

Words = dict[str, Any]
HELLO = "KIT-HOST 1 "
"""Begins each answer; other lines are of the host's shell or Python."""
IDLE_SECONDS = 30
"""A process that has heard nothing for so long ends: the runner is gone."""
KEPT_SECONDS = 30 * 86_400
_CONNECT_SECONDS = 4.0
_POLL_SECONDS = 0.1
_KILLED_SECONDS = 5.0
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_SIOCGIFCONF = 0x8912
_ENTRY_BYTES = 40
"""Size of one address in the kernel's list."""
_BROUGHT = re.compile(r"[0-9a-f]{16,}[\w.-]*")
_RUN = re.compile(r"\d{8}T\d{6}Z-[\w.-]+-node\d+")
_listeners: list[Any] = []


def main() -> None:
    """Answer requests until stdin ends."""
    doing = {"check": check, "listen": listen, "reach": reach, "use": use, "begin": begin, "beat": beat}
    doing["remove"] = remove
    _answer({})
    for line in sys.stdin.buffer:
        signal.alarm(IDLE_SECONDS)  # its default action ends the process
        request = json.loads(line.decode("utf-8"))
        try:
            _answer(doing[request["do"]](request))
        except (OSError, ValueError, KeyError) as error:
            why = getattr(error, "strerror", None) or error
            name = getattr(error, "filename", None)
            _answer({"error": f"{name}: {why}" if name else f"{why}"})


def check(request: Words) -> Words:
    """Describe this host: its Python, torch, clock, disk, GPUs, and the address by which SSH has reached it."""
    from importlib import metadata  # takes time, and only this needs it

    try:
        torch = metadata.version("torch")
    except metadata.PackageNotFoundError:
        torch = ""
    folder = there = base_folder(request["folder"])
    if request["make"]:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        probe = os.path.join(folder, f".probe-{os.getpid()}")
        with open(probe, "wb"):
            os.unlink(probe)
    while not os.path.isdir(there):
        there = os.path.dirname(there)
    if not os.access(there, os.W_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), there)
    disk = os.statvfs(there)
    words = os.environ.get("SSH_CONNECTION", "").split()
    return {
        "host": socket.gethostname(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "torch": torch,
        "rsync": shutil.which("rsync") is not None,
        "time": time.time(),
        "folder": folder,
        "free_bytes": disk.f_bavail * disk.f_frsize,
        "address": words[2].partition("%")[0] if len(words) == 4 else "",  # sshd(8)
        "addresses": _addresses(),
        "has_data": os.path.isdir(os.path.expanduser(request["data"])),
        "gpus": len(glob.glob("/proc/driver/nvidia/gpus/*")),
    }


def listen(request: Words) -> Words:
    """Return a port that is free now, or the one that is asked for; with `accept`, accept connections until the end."""
    address, number = request["address"], request["port"]
    server = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((address, number or free_port(address)))
    server.listen(64)
    port = server.getsockname()[1]

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                server.accept()[0].close()

    if request["accept"]:
        _listeners.append(server)
        threading.Thread(target=accept, daemon=True).start()
    else:
        server.close()
    return {"port": port}


def reach(request: Words) -> Words:
    """Connect to an address; say why that fails."""
    try:
        with socket.create_connection((request["address"], request["port"]), _CONNECT_SECONDS):
            return {"trouble": ""}
    except TimeoutError:
        return {"trouble": f"no answer within {_CONNECT_SECONDS:.0f} s"}
    except OSError as error:
        return {"trouble": error.strerror or str(error)}


def use(request: Words) -> Words:
    """Make a folder for what is brought, or mark it as used now, so that `tidy` keeps it."""
    os.makedirs(request["path"], mode=0o700, exist_ok=True)
    hold(request["path"])
    with contextlib.suppress(OSError):  # another user's, on a shared disk
        os.utime(request["path"])
    return {}


def begin(request: Words) -> Words:
    """Start the supervisor of a run, and wait until it has started the run."""
    folder, kept = _run(request), _kept(request)
    os.makedirs(folder, mode=0o700)
    os.makedirs(kept["artifacts"])
    os.makedirs(kept["logs"])
    os.makedirs(os.path.join(folder, "observer"))
    with open(os.path.join(folder, "observer", "sitecustomize.py"), "w", encoding="utf-8") as hook:
        hook.write(request["hook"])
    if request["data"]:
        data = os.path.expanduser(request["data"])
        os.makedirs(data, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.symlink(data, os.path.join(request["cwd"], "data"))
    _touch(os.path.join(folder, "lease"))
    said, say = os.pipe()
    if not os.fork():
        os.close(said)
        _supervise(folder, kept, request, say)
    os.close(say)
    with open(said, encoding="utf-8") as file:
        why = file.read()
    if why != "started":
        raise OSError(0, why or "its supervisor does not start")
    return {}


def beat(request: Words) -> Words:
    """Renew the lease of a run, end it if that is asked, and say how far it is."""
    folder = _run(request)
    if not os.path.isdir(folder):
        return {"folder": "", "lives": False, "size": 0, "ended": None}
    lives = _lives(folder)
    _touch(os.path.join(folder, "lease"))
    if request["stop"]:
        _touch(os.path.join(folder, "stop"))
    size = 0
    for place, _, names in os.walk(os.path.join(folder, "kept", "raw")):
        for name in names:
            with contextlib.suppress(OSError):
                size += 1 + os.lstat(os.path.join(place, name)).st_size
    ended = None
    with contextlib.suppress(OSError, ValueError), open(os.path.join(folder, "exit.json"), encoding="utf-8") as file:
        ended = json.load(file)
    return {"folder": folder, "lives": lives, "size": size, "ended": ended}


def remove(request: Words) -> Words:
    """Remove the folder of a run that has ended."""
    shutil.rmtree(_run(request))
    return {}


def base_folder(folder: str) -> str:
    """Return the folder in which everything is kept; empty for the one in the user's cache."""
    if folder:
        return os.path.abspath(os.path.expanduser(folder))
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "distributed-experiment-kit", "ssh")


def hold(folder: str) -> None:
    """Keep a folder from being removed until this process ends."""
    with contextlib.suppress(OSError):
        fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_SH)


def tidy(base: str) -> None:
    """Remove programs and data that no run has used for 30 days, and old runs that were never fetched."""
    for kind, pattern in (("programs", _BROUGHT), ("data", _BROUGHT), ("runs", _RUN)):
        for path in glob.glob(os.path.join(glob.escape(base), kind, "*")):
            if not pattern.fullmatch(os.path.basename(path)):
                continue
            with contextlib.suppress(OSError):
                held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                try:
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if time.time() - os.fstat(held).st_mtime > KEPT_SECONDS:
                        beside = f"{path}.{os.getpid()}.tmp"
                        os.rename(path, beside)  # nobody finds a part of it
                        shutil.rmtree(beside, ignore_errors=True)
                finally:
                    os.close(held)


def _supervise(folder: str, kept: Words, request: Words, say: int) -> None:
    """Run torchrun in a session of its own, and end it with all that it has started; never return."""
    try:
        os.setsid()
        signal.alarm(0)
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)  # so that what loses its parent becomes a child of this process
        log = os.open(kept["agent"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        null = os.open(os.devnull, os.O_RDWR)
        for number, target in enumerate((null, null, log)):  # the connection may end
            os.dup2(target, number)
        alive = os.open(os.path.join(folder, "alive"), os.O_WRONLY | os.O_CREAT)
        fcntl.flock(alive, fcntl.LOCK_EX)
        for held in (folder, request["cwd"], os.path.join(request["cwd"], "data")):
            hold(held)
        child = subprocess.Popen(
            request["argv"],
            cwd=request["cwd"],
            env=_environment(folder, kept, request),
            stdin=null,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM),  # noqa: PLW1509 - one thread
        )
        os.write(say, b"started")
        os.dup2(log, say)
        ended = _watch(child, folder, request)
        _kill(request["mark"])
        path = os.path.join(folder, "exit.json")
        with open(f"{path}.tmp", "w", encoding="utf-8") as file:
            json.dump(ended, file)
        os.rename(f"{path}.tmp", path)
        os.close(alive)
        tidy(base_folder(request["folder"]))
    except OSError as error:
        os.write(say, str(error).encode())
    finally:
        os._exit(0)


def _environment(folder: str, kept: Words, request: Words) -> Words:
    """Return this host's own variables without those of another run, with those of the run."""
    env = clean_environment("SSH_")
    own = dict(request["env"], KIT_RUN_ID=request["mark"], KIT_RUNNER_PID=str(os.getpid()))
    own.update(PET_LOG_DIR=kept["logs"], KIT_SEEN=kept["logs"], KIT_ARTIFACTS=kept["artifacts"])
    search = [os.path.join(folder, "observer"), own.get("PYTHONPATH"), request["cwd"], env.get("PYTHONPATH")]
    own["PYTHONPATH"] = ":".join(filter(None, search))
    return dict(env, **own)


def _watch(child: Any, folder: str, request: Words) -> Words:
    """Wait for the end of torchrun; end it when told to, or when the lease is over by this process's own clock."""
    lease, stop = os.path.join(folder, "lease"), os.path.join(folder, "stop")
    renewed, seen = time.monotonic(), -1
    until, why = None, ""
    while child.poll() is None:
        now = time.monotonic()
        with contextlib.suppress(OSError):
            if os.stat(lease).st_mtime_ns != seen:
                seen, renewed = os.stat(lease).st_mtime_ns, now
        if until is None and (os.path.exists(stop) or now - renewed > request["lease_seconds"]):
            why = "stop" if os.path.exists(stop) else "lease"
            until = now + request["grace_seconds" if why == "stop" else "lost_grace_seconds"]
            child.terminate()
        if until is not None and now > until:
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


def _lives(folder: str) -> bool:
    """Return whether a run's supervisor lives: the kernel releases its lock however it ends."""
    try:
        with open(os.path.join(folder, "alive"), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def _run(request: Words) -> str:
    return os.path.join(base_folder(request["folder"]), "runs", request["run"])


def _kept(request: Words) -> Words:
    """Return the places of what the runner's record keeps, with the names that they have there."""
    return {name: os.path.join(_run(request), "kept", path) for name, path in request["kept"].items()}


def _touch(path: str) -> None:
    with open(path, "ab"):
        os.utime(path)


def _addresses() -> list[list[str]]:
    """List the addresses of this host, each with its interface."""
    found = []
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        buffer = ctypes.create_string_buffer(_ENTRY_BYTES * 1024)
        asked = struct.pack("iL", len(buffer), ctypes.addressof(buffer))
        size = struct.unpack("iL", fcntl.ioctl(probe, _SIOCGIFCONF, asked))[0]
        for start in range(0, size, _ENTRY_BYTES):
            name = buffer.raw[start : start + 16].partition(b"\0")[0].decode().partition(":")[0]
            found.append([socket.inet_ntoa(buffer.raw[start + 20 : start + 24]), name])
    with contextlib.suppress(OSError), open("/proc/net/if_inet6", encoding="ascii") as file:
        for line in file:
            words = line.split()
            found.append([socket.inet_ntop(socket.AF_INET6, bytes.fromhex(words[0])), words[5]])
    return found


def _answer(words: Words) -> None:
    """Write an answer on a line of its own, with one call, so that no warning stands within it."""
    os.write(1, f"\n{HELLO}{json.dumps(words)}\n".encode())
