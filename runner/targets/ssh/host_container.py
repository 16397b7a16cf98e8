"""Containers of a host, by the command of its engine: docker or podman, as a list of words that no shell reads.

A run's container ends with its supervisor, whatever ends that: `end` removes it, and a guard within it, which looks at
the lock that the supervisor holds, ends it if there is no supervisor any more, also if the engine's command was killed.

Sources: docker run and podman-run(1), the Container Device Interface (`--device nvidia.com/gpu=all`), flock(2).
"""

import contextlib
import json
import os
import pwd
import re
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

from runner.targets.ssh.host_frames import IDLE_SECONDS, Frame, Requests, send

ENGINE_SECONDS = 30.0
PROBE_SECONDS = 120.0
TRANSFER_SECONDS = 3_600.0
"""How long an engine may take for an answer, for a container that says what is in its image, and for an image."""
_END_SECONDS = 5.0
_STUCK_SECONDS = 300
"""An engine that takes nothing of an image for so long is given up."""
_LARGEST = 4_000_000
_BEAT_SECONDS = 1.0
_POLL_SECONDS = 0.1
_MARK = b"KIT-IMAGE "
_UNQUOTED = re.compile(r'[,"\x00-\x1f]')
"""What the list of words in `--mount` cannot hold."""
_PROBE = """
import json, os, platform, sys
try:
    from importlib import metadata
    torch = metadata.version("torch")
except Exception:
    try:
        import torch
        torch = str(torch.__version__)
    except Exception:
        torch = ""
trouble = ""
for place in sys.argv[1:]:
    try:
        probe = os.path.join(place, ".probe-%s" % os.environ["KIT_PROBE"])
        open(probe, "wb").close()
        os.unlink(probe)
    except OSError as error:
        trouble = str(error)
found = {"python": platform.python_version(), "torch": torch, "trouble": trouble}
print("\\nKIT-IMAGE " + json.dumps(found), flush=True)
"""
GUARD = """
import fcntl, os, signal, subprocess, sys, time
lock, grace, *words = sys.argv[1:]
places = [os.environ.pop("KIT_SEARCH", ""), os.environ.get("PYTHONPATH", "")]
os.environ["PYTHONPATH"] = ":".join(filter(None, places))
held, until = open(lock, "rb"), None
child = subprocess.Popen(words)
signal.signal(signal.SIGTERM, lambda *_: child.terminate())
while child.poll() is None:
    try:
        child.wait(0.5)
    except subprocess.TimeoutExpired:
        pass
    if until is None:
        try:
            fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            continue
        until = time.monotonic() + float(grace)
        child.terminate()
    elif time.monotonic() > until:
        child.kill()
sys.exit(128 - child.returncode if child.returncode < 0 else child.returncode)
"""


def engine(request: Frame, requests: Requests) -> Frame:
    """Return what the engine of this host is, how much room it has, and which image it has under a name."""
    runtime = request["runtime"]
    code, out, why = call([runtime, "info", "--format", "{{json .}}"], ENGINE_SECONDS, requests)
    with contextlib.suppress(ValueError, IndexError, KeyError, TypeError, AttributeError):
        said = json.loads(out)
        if not code and not said.get("ServerErrors"):
            return dict(_describe(said), **image(runtime, request["image"], requests))
        why = why or said["ServerErrors"][0]
    raise OSError(0, why or f"{runtime} info ended with {code}")


def image(runtime: str, name: str, requests: Requests | None = None) -> Frame:
    """Return the image that an engine has under a name: `id`, `bytes`, `type`; nothing if it has none."""
    code, out, _ = call([runtime, "image", "inspect", name], ENGINE_SECONDS, requests)
    with contextlib.suppress(ValueError, IndexError, KeyError, TypeError, AttributeError):
        found = json.loads(out)[0]
        if not code:
            own = "sha256:" + found["Id"].rpartition(":")[2]
            return {"id": own, "bytes": int(found.get("Size") or 0), "type": str(found.get("ManifestType", ""))}
    return {}


def pull(request: Frame, requests: Requests) -> Frame:
    """Let the engine pull an image, with the credentials that it has."""
    code, _, why = call([request["runtime"], "pull", "--quiet", request["image"]], TRANSFER_SECONDS, requests)
    if code:
        raise OSError(0, why or f"{request['runtime']} pull ended with {code}")
    return image(request["runtime"], request["image"], requests)


def load(request: Frame, requests: Requests) -> Frame:
    """Give the engine an image that comes in frames, the last one empty; return the image that it has by its id."""
    with tempfile.TemporaryFile() as said:
        loading = subprocess.Popen([request["runtime"], "load"], stdin=subprocess.PIPE, stdout=said, stderr=said)
        try:
            assert loading.stdin  # noqa: S101 - it was asked for
            while True:
                frame, data = requests.next()
                if frame is None:
                    raise OSError(0, "the connection was lost")
                if not data:
                    break
                signal.alarm(_STUCK_SECONDS)
                loading.stdin.write(data)
            loading.stdin.close()
            _wait(loading, TRANSFER_SECONDS, requests)
        except BrokenPipeError:
            loading.wait()
        finally:
            loading.kill()
            loading.wait()
        if loading.returncode:
            raise OSError(0, _last(said) or f"{request['runtime']} load ended with {loading.returncode}")
    return image(request["runtime"], request["image"], requests)


def probe(request: Frame, requests: Requests) -> Frame:
    """Start a container as a run does, and say which Python and torch are in it, and whether it can write here."""
    name = f"kit-probe-{os.getpid()}-{time.time_ns():x}"
    folder = request["folder"]
    mounts = {folder: folder} if os.path.isdir(folder) else {}
    words = ["python3", "-c", _PROBE, *mounts]
    own = dict(request["container"], env={"KIT_PROBE": str(os.getpid())})
    os.environ.update(own["env"])
    try:
        code, out, why = call(command(own, name, mounts, "/", words), PROBE_SECONDS, requests)
    finally:
        end(own["runtime"], name)
    for line in reversed(out.split(b"\n")):
        if line.startswith(_MARK):
            said: Frame = json.loads(line[len(_MARK) :].decode("utf-8"))
            return said
    raise OSError(0, f"{own['runtime']} run ended with {code}" + (f": {why}" if why else ""))


def command(container: Frame, name: str, mounts: dict[str, str], folder: str, words: list[str]) -> list[str]:
    """Write the command that runs words in a container, as this user, on this host's network.

    The container is described by `runtime`, `image`, and what `engine` said: `kind`, `rootless`; whether it gets the
    `gpus`; and `env`, of which only the names are written: the engine's command takes the values from its own. The
    mounts are folders of this host by their place in it; OSError for one that cannot be named.
    """
    own = [container["runtime"], "run", "--rm", f"--name={name}", "--init", "--network=host", "--ipc=host"]
    own += ["--log-driver=none", "--security-opt=label=disable", "--stop-timeout=1", f"--workdir={folder}"]
    own += _user(container)
    for place, source in sorted(mounts.items()):
        for path in (place, source):
            if _UNQUOTED.search(path):
                raise OSError(0, f"{path!r}: a container cannot have a folder with a comma or a quote in its name")
        own.append(f"--mount=type=bind,source={source},target={place}")
    if container["gpus"]:
        own.append("--device=nvidia.com/gpu=all" if container["kind"] == "podman" else "--gpus=all")
    own += [f"--env={variable}" for variable in sorted(container["env"])]
    return [*own, container["image"], *words]


def end(runtime: str, name: str) -> None:
    """Remove a container with all that runs in it, if there is one."""
    with contextlib.suppress(OSError):
        call([runtime, "rm", "--force", name], _END_SECONDS)


def call(words: list[str], seconds: float, requests: Requests | None = None) -> tuple[int, bytes, str]:
    """Run a command; return its exit code, what it printed, and the last line of its stderr.

    OSError if there is no such command, or it takes too long. While it runs, whoever waits at the other end of the
    connection hears that, and it is ended with the connection.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        except FileNotFoundError:
            raise OSError(0, f"there is no {words[0]} on the PATH") from None
        try:
            _wait(process, seconds, requests)
        finally:
            process.kill()
            process.wait()
        out.seek(0)
        return process.returncode, out.read(_LARGEST), _last(err)


def _wait(process: Any, seconds: float, requests: Requests | None) -> None:
    until, beat = time.monotonic() + seconds, time.monotonic()
    while process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_SECONDS)
        now = time.monotonic()
        if now > until:
            raise OSError(0, f"{process.args[0]} does not end within {seconds:.0f} s")
        if requests is None:
            continue
        signal.alarm(IDLE_SECONDS)
        taken = requests.next(wait=False)
        if taken is not None and taken[0] is None:
            process.kill()
            sys.exit(0)
        if now - beat > _BEAT_SECONDS:
            beat = now
            send({"beat": 1})


def _describe(said: Frame) -> Frame:
    """Read what an engine says of itself: podman may also answer to the name of docker."""
    store = said.get("store")
    folder = store["graphRoot"] if store else said["DockerRootDir"]
    security = said["host"].get("security", {}).get("rootless") if store else "rootless" in str(said["SecurityOptions"])
    there = folder
    while not os.path.isdir(there):
        there = os.path.dirname(there)
    disk = os.statvfs(there)
    return {
        "kind": "podman" if store else "docker",
        "version": str(said["version"]["Version"] if store else said["ServerVersion"]),
        "rootless": bool(security),
        "store": folder,
        "store_bytes": disk.f_bavail * disk.f_frsize,
    }


def _user(container: Frame) -> list[str]:
    """Write the options by which files are this user's; whoever is not root has a home folder in the container's /tmp.

    Podman without root maps this user to itself; Docker without root maps its root to this user.
    """
    user, group = os.getuid(), os.getgid()
    if container["kind"] == "podman":
        own = [f"--user={user}:{group}", *(["--userns=keep-id"] if user else [])]
    elif container["rootless"]:
        return ["--user=0:0"]
    else:
        own = [f"--user={user}:{group}", "--userns=host", *(f"--group-add={other}" for other in sorted(os.getgroups()))]
    if user:
        try:
            name = pwd.getpwuid(user).pw_name
        except KeyError:
            name = str(user)
        own += ["--env=HOME=/tmp", f"--env=USER={name}"]
    return own


def _last(file: Any) -> str:
    """Return the last line of a file that says something."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 10_000))
    lines = file.read().decode("utf-8", "replace").split("\n")
    said = [line.strip() for line in lines if line.strip() and not line.startswith(("See '", "Run '"))]
    return said[-1] if said else ""
