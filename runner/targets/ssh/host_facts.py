"""What a host says of itself: its versions, its clock, its disk and its network.

Sources: netdevice(7) (SIOCGIFCONF), and the files of proc(5).
"""

import contextlib
import ctypes
import errno
import fcntl
import glob
import os
import socket
import struct
import sys
import threading
import time
from typing import Any

from runner.core.ports import free_port
from runner.targets.ssh.host_frames import Frame

_CONNECT_SECONDS = 4.0
_SIOCGIFCONF = 0x8912
_ENTRY_BYTES = 40
"""Of one address, as the kernel lists it."""
_listeners: list[Any] = []


def check(request: Frame) -> Frame:
    """Describe this host: its Python, torch, clock, disk, GPUs, and the address by which SSH has reached it."""
    from importlib import metadata  # costs time, and a run that goes on needs it not

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
        "time": time.time(),
        "folder": folder,
        "free_bytes": disk.f_bavail * disk.f_frsize,
        "address": words[2].partition("%")[0] if len(words) == 4 else "",  # sshd(8)
        "addresses": _addresses(),
        "has_data": os.path.isdir(os.path.expanduser(request["data"])),
        "gpus": len(glob.glob("/proc/driver/nvidia/gpus/*")),
    }


def listen(request: Frame) -> Frame:
    """Accept connections on a port, 0 for a free one, until this process ends."""
    server = _server(request["address"], request["port"])
    _listeners.append(server)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                server.accept()[0].close()

    threading.Thread(target=accept, daemon=True).start()
    return {"port": server.getsockname()[1]}


def port(request: Frame) -> Frame:
    """Name a port that is free now."""
    with contextlib.closing(_server(request["address"], request["port"])) as server:
        return {"port": server.getsockname()[1]}


def reach(request: Frame) -> Frame:
    """Connect to an address; say why that fails."""
    try:
        with socket.create_connection((request["address"], request["port"]), _CONNECT_SECONDS):
            return {"trouble": ""}
    except TimeoutError:
        return {"trouble": f"no answer within {_CONNECT_SECONDS:.0f} s"}
    except OSError as error:
        return {"trouble": error.strerror or str(error)}


def base_folder(folder: str) -> str:
    """Return the folder in which everything is kept; empty for that in the user's cache."""
    if folder:
        return os.path.abspath(os.path.expanduser(folder))
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "distributed-experiment-kit", "ssh")


def _server(address: str, number: int) -> Any:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    server = socket.socket(family, socket.SOCK_STREAM)
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((address, number or free_port(address)))
        server.listen(64)
    except OSError:
        server.close()
        raise
    return server


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
