"""What runs on a host: this module and `host_*`, sent over SSH and run by the host's Python as they are.

It reads requests on its stdin and answers on its stdout, and keeps all that it writes in one folder: programs and data
by their hash, and a folder for each run.
"""

import contextlib
import hashlib
import os
import shutil
import signal
import tarfile
from typing import Any

from runner.targets.ssh.host_facts import check, listen, port, reach
from runner.targets.ssh.host_frames import IDLE_SECONDS, Frame, Requests, send
from runner.targets.ssh.host_run import begin, follow, remove, supervise
from runner.targets.ssh.host_tidy import used

HELLO = "KIT-HOST 1"
_IGNORED = ("hello", "bytes", "ping", "stop")
"""What may be left of a request that was refused or has been answered."""


def main() -> None:
    """Answer requests until stdin ends."""
    requests = Requests()
    frame, _ = requests.next()
    if frame and frame["do"] == "supervise":
        supervise(frame)
        return
    os.write(1, f"\n{HELLO}\n".encode())
    while frame is not None:
        signal.alarm(IDLE_SECONDS)
        if frame["do"] not in _IGNORED:
            send({"answer": _answer(frame, requests)})
        frame, _ = requests.next()


def has(request: Frame) -> Frame:
    """Return whether a folder, named by its hash, is there."""
    return {"has": used(os.path.join(request["folder"], request["name"]))}


def bring(request: Frame, requests: Requests) -> Frame:
    """Unpack a tar archive that comes in frames, the last one empty, into a folder named by its hash."""
    place = os.path.join(request["folder"], request["name"])
    beside = f"{place}.{os.getpid()}.tmp"
    os.makedirs(beside, mode=0o700)
    try:
        found = {}
        stream: Any = _Stream(requests)
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                parts = member.name.split("/")
                source = tar.extractfile(member) if member.isfile() else None
                if source is None or member.name.startswith("/") or ".." in parts:
                    raise OSError(0, f"{member.name!r} is no file of a project")
                path = os.path.join(beside, *parts)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                found[member.name] = _unpack(source, path)
        if hash_of(found) != request["sha256"]:
            raise OSError(0, "what was received is not what was sent")
        if request.get("data"):
            data = os.path.expanduser(request["data"])
            os.makedirs(data, exist_ok=True)
            os.symlink(data, os.path.join(beside, "data"))
        with contextlib.suppress(OSError):  # somebody else was faster
            os.rename(beside, place)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return {}


def _answer(frame: Frame, requests: Requests) -> Frame:
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


class _Stream:
    """The bytes of frames as a file that is read once; an empty frame is its end."""

    def __init__(self, requests: Requests) -> None:
        self._requests, self._rest, self._is_over = requests, b"", False

    def read(self, size: int) -> bytes:
        while len(self._rest) < size and not self._is_over:
            frame, data = self._requests.next()
            signal.alarm(IDLE_SECONDS)
            if frame is None:
                raise OSError(0, "the connection was lost")
            self._rest += data
            self._is_over = not data
        block, self._rest = self._rest[:size], self._rest[size:]
        return block


def _unpack(source: Any, path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "wb") as target:
        while block := source.read(1_000_000):
            digest.update(block)
            target.write(block)
    return digest.hexdigest()


def hash_of(files: dict[str, str]) -> str:
    """Hash files by their paths and their own hashes."""
    lines = "".join(f"{name}\0{files[name]}\n" for name in sorted(files))
    return hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()
