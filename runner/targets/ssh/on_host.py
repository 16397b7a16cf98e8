"""Answer one question on a host. `OpenSsh.ask` sends this module to the host's Python, which needs no packages.

`begin` starts a supervisor that needs no connection to the runner. The supervisor ends the run if the runner asks for
it, or if the run's lease expires. Every `beat` renews the lease.

In the kit's folder, `programs` and `data` contain folders named by hash, and `runs` has a folder for each node of a
run. A module that only one function needs is imported in the function, because the frequent `beat` must be fast.

Sources: prctl(2) (PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER), flock(2), proc(5), netdevice(7) (SIOCGIFCONF).
"""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import sys
import time
from typing import Any

from runner.core import ports
from runner.targets.clean_environment import clean_environment

Words = dict[str, Any]
MARK = "KIT-HOST "
"""Prefix of the answer, because the host's shell or Python may print other lines."""
LEASE_SECONDS = 25
GRACE_SECONDS = {"stop": 10, "lease": 3}
"""Time from SIGTERM to SIGKILL after a stop or an expired lease. A lost host ends its run within 30 s."""
_KEPT_SECONDS = 30 * 86_400
_ALIVE_SECONDS = 60
"""Longest time that a question or a listening port lasts, because the runner may be gone."""
_CONNECT_SECONDS = 4.0
_POLL_SECONDS = 0.1
_KILLED_SECONDS = 5.0
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_SIOCGIFCONF = 0x8912
_ENTRY_BYTES = 40
_ENDED = "ended-"
_OURS = r"[0-9a-f]{64}[\w.-]*|(?:ended-)?\d{8}T\d{6}Z-[\w.-]+-node\d+[\w.-]*"
"""Names of folders that `tidy` may remove, because the folder of `--with folder=` may contain other files."""


def main(do: str, words: Words) -> None:
    """Call the function `do` and print its answer. After an error, the last line is the reason."""
    signal.alarm(_ALIVE_SECONDS)
    questions = {"facts": facts, "reach": reach, "use": use, "begin": begin, "beat": beat, "remove": remove}
    try:
        answer = questions[do](**words)  # type: ignore[operator]
    except OSError as error:
        sys.exit(str(error))
    os.write(1, f"\n{MARK}{json.dumps(answer)}\n".encode())  # one call, so that no warning splits the line


def facts(base: str, data: str, network: str, port: int, alone: bool) -> Words:
    """Describe this host. Unless `alone`, also listen for a while, so that the other hosts can try to connect."""
    import glob
    import ipaddress
    import socket
    from importlib import metadata

    began = time.time()
    folder = there = base_folder(base)
    while not os.path.isdir(there):
        there = os.path.dirname(there)
    disk = os.statvfs(there)
    words, interfaces = os.environ.get("SSH_CONNECTION", "").split(), _addresses()
    address = words[2].partition("%")[0] if len(words) == 4 else ""  # sshd(8)
    if network:
        wanted = ipaddress.ip_network(network, strict=False)
        address = next((own for own in interfaces if ipaddress.ip_address(own) in wanted), "")
    port_trouble, listens = "", 0
    try:
        if port:
            place = "127.0.0.1" if alone else address
            socket.create_server((place, port), family=socket.AF_INET6 if ":" in place else socket.AF_INET).close()
    except OSError as error:
        port_trouble = str(error)
    if address in interfaces and not alone:
        listens = _listen(address)
    return {
        "machine": socket.gethostname(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "torch": next((found.version for found in metadata.distributions(name="torch")), ""),
        "rsync": shutil.which("rsync") is not None,
        "folder": folder,
        "writable": os.access(there, os.W_OK),
        "free_bytes": disk.f_bavail * disk.f_frsize,
        "address": address,
        "interface": interfaces.get(address, ""),
        "addresses": list(interfaces),
        "has_data": os.path.isdir(os.path.expanduser(data)),
        "gpus": len(glob.glob("/proc/driver/nvidia/gpus/*")),
        "port_trouble": port_trouble,
        "listens": listens,
        "times": [began, time.time()],
    }


def reach(places: dict[str, tuple[str, int]]) -> dict[str, str]:
    """Connect to other hosts in parallel. Return the error of each connection, which is empty after success."""
    import socket
    from concurrent.futures import ThreadPoolExecutor

    def trouble(place: tuple[str, int]) -> str:
        try:
            socket.create_connection(place, _CONNECT_SECONDS).close()
        except OSError as error:
            return error.strerror or f"{error}"
        return ""

    with ThreadPoolExecutor(16) as pool:
        return dict(zip(places, pool.map(trouble, places.values()), strict=True))


def use(path: str) -> None:
    """Create a missing folder for programs or data. Mark the folder as used now, so that `tidy` keeps it."""
    os.makedirs(path, mode=0o700, exist_ok=True)
    os.utime(path)


def begin(base: str, run: str, cwd: str, data: str, folders: list[str], port: int, env: Words, **words: Any) -> Words:
    """Start a run under a supervisor. Return the rendezvous port."""
    folder = _run(base, run)
    for made in (folder, *folders):
        os.makedirs(made, mode=0o700)
    if os.path.isdir(_run(base, f"{_ENDED}{run}")):
        shutil.rmtree(folder)
        raise OSError("the run was ended before it began here")
    data = os.path.abspath(os.path.expanduser(data))
    os.makedirs(data, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.symlink(data, os.path.join(cwd, "data"))
    port = port or ports.free_port(env["PET_MASTER_ADDR"])
    _touch(os.path.join(folder, "lease"))
    said, say = os.pipe()
    if not os.fork():
        os.close(said)
        _supervise(base, folder, cwd, say, dict(env, PET_MASTER_PORT=str(port)), **words)
    os.close(say)
    with open(said, encoding="utf-8") as file:
        why = file.read()
    if why != "started":
        raise OSError(why or "its supervisor does not start")
    return {"port": port}


def beat(base: str, run: str, stop: bool) -> Words:
    """Renew a run's lease. With `stop`, end the run. Return whether its supervisor lives, and how the run ended."""
    folder, mark = _run(base, run), _run(base, f"{_ENDED}{run}")
    if stop:
        os.makedirs(mark, exist_ok=True)  # first, because a killed runner's `begin` may still be under way
    if not os.path.isdir(folder):
        return {"folder": "", "lives": False, "ended": {}}
    if stop:
        os.rmdir(mark)
    lives, ended = False, {}
    with contextlib.suppress(FileNotFoundError), open(os.path.join(folder, "alive"), "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # the supervisor holds the lock
            lives = True
    for name in ("lease", "stop") if stop else ("lease",):
        _touch(os.path.join(folder, name))
    with contextlib.suppress(FileNotFoundError), open(os.path.join(folder, "exit.json"), encoding="utf-8") as file:
        ended = json.load(file)
    return {"folder": folder, "lives": lives, "ended": ended}


def remove(base: str, run: str) -> None:
    """Remove the folder of an ended run."""
    shutil.rmtree(_run(base, run))


def base_folder(base: str) -> str:
    """Return the absolute path of the kit's folder, by default in the user's cache."""
    if base:
        return os.path.abspath(os.path.expanduser(base))
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "distributed-experiment-kit", "ssh")


def tidy(base: str) -> None:
    """Remove programs and data that no run has used for 30 days, and runs of this age that were never fetched."""
    import glob
    import re

    kinds = ("programs", "data", "runs")
    for path in (path for kind in kinds for path in glob.glob(os.path.join(glob.escape(base), kind, "*"))):
        if not re.fullmatch(_OURS, os.path.basename(path)):
            continue
        with contextlib.suppress(OSError):
            held = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if time.time() - os.fstat(held).st_mtime > _KEPT_SECONDS:
                    beside = f"{path}.{os.getpid()}.tmp"
                    os.rename(path, beside)  # so that no run finds a partial folder
                    shutil.rmtree(beside, ignore_errors=True)
            finally:
                os.close(held)


def _supervise(base: str, folder: str, cwd: str, say: int, env: Words, argv: list[str], log: str) -> None:
    """Run torchrun in a new session. End the run's processes on request or if the lease expires. Never returns."""
    import ctypes
    import subprocess

    try:
        os.setsid()
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)  # adopt orphans
        out, null = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), os.open(os.devnull, os.O_RDWR)
        for number, target in enumerate((null, null, out)):  # the connection may end
            os.dup2(target, number)
        alive = os.open(os.path.join(folder, "alive"), os.O_WRONLY | os.O_CREAT)
        fcntl.flock(alive, fcntl.LOCK_EX)  # the kernel releases it however this process ends
        for held in (folder, cwd, os.path.join(cwd, "data")):  # so that another run's `tidy` keeps them
            with contextlib.suppress(OSError):
                fcntl.flock(os.open(held, os.O_RDONLY), fcntl.LOCK_SH)
        own = clean_environment("SSH_")
        search = f"{env['PYTHONPATH']}:{own.get('PYTHONPATH', '')}".strip(":")
        child = subprocess.Popen(
            argv,
            cwd=cwd,
            env={**own, **env, "PYTHONPATH": search, "KIT_RUNNER_PID": str(os.getpid())},
            stdin=null,
            stdout=out,
            stderr=out,
            start_new_session=True,
            preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM),  # noqa: PLW1509 - one thread
        )
        os.write(say, b"started")
        os.dup2(out, say)
        lease, stop = os.path.join(folder, "lease"), os.path.join(folder, "stop")
        renewed, seen, until, why = time.monotonic(), -1, None, ""
        while child.poll() is None:
            now = time.monotonic()  # clocks of hosts and disks may be wrong
            with contextlib.suppress(OSError):
                if os.stat(lease).st_mtime_ns != seen:
                    seen, renewed = os.stat(lease).st_mtime_ns, now
            if until is None and (os.path.exists(stop) or now - renewed > LEASE_SECONDS):
                why = "stop" if os.path.exists(stop) else "lease"
                until = now + GRACE_SECONDS[why]
                child.terminate()
            if until is not None and now > until:
                child.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_POLL_SECONDS)
        _kill(env["KIT_RUN_ID"])
        path = os.path.join(folder, "exit.json")
        with open(f"{path}.tmp", "w", encoding="utf-8") as file:
            json.dump({"code": child.returncode, "why": why}, file)
        os.rename(f"{path}.tmp", path)
        os.close(alive)
        tidy(base_folder(base))
    except OSError as error:
        os.write(say, str(error).encode())
    finally:
        os._exit(0)


def _kill(mark: str) -> None:
    until = time.monotonic() + _KILLED_SECONDS
    while time.monotonic() < until:
        left = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_of(pid, mark)]
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not left:
            return
        time.sleep(0.05)


def _is_of(pid: int, mark: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"KIT_RUN_ID={mark}".encode() in file.read().split(b"\0")
    except OSError:
        return False


def _run(base: str, run: str) -> str:
    return os.path.join(base_folder(base), "runs", run)


def _touch(path: str) -> None:
    with open(path, "ab"):
        os.utime(path)


def _listen(address: str) -> int:
    server = ports.held_port(address)
    server.listen(64)
    if not os.fork():
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):  # ssh waits until its pipes are closed
            os.dup2(null, number)
        signal.alarm(_ALIVE_SECONDS)
        while True:
            server.accept()[0].close()
    return int(server.getsockname()[1])


def _addresses() -> dict[str, str]:
    import ctypes
    import socket
    import struct

    interfaces = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        buffer = ctypes.create_string_buffer(_ENTRY_BYTES * 1024)
        asked = struct.pack("iL", len(buffer), ctypes.addressof(buffer))
        size = struct.unpack("iL", fcntl.ioctl(probe, _SIOCGIFCONF, asked))[0]
        for start in range(0, size, _ENTRY_BYTES):
            name = buffer.raw[start : start + 16].partition(b"\0")[0].decode().partition(":")[0]
            interfaces[socket.inet_ntoa(buffer.raw[start + 20 : start + 24])] = name
    with contextlib.suppress(OSError), open("/proc/net/if_inet6", encoding="ascii") as file:
        for line in file:
            words = line.split()
            interfaces[socket.inet_ntop(socket.AF_INET6, bytes.fromhex(words[0]))] = words[5]
    return interfaces
