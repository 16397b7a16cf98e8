"""OpenSSH's own client, and rsync over it: how they are called, and what their words mean.

One connection to a host is shared by all that goes there (ControlMaster, ssh_config(5)); its socket is in a folder of
the user's own. BatchMode keeps ssh from asking for a password or a host key.
"""

import errno
import hashlib
import os
import re
import shlex
import signal
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from runner.core import clock
from runner.core.errors import RequestError
from runner.core.text import one_line

CONNECT_SECONDS = 10
_PERSIST_SECONDS = 15
_OPTIONS = (
    "BatchMode=yes",
    f"ConnectTimeout={CONNECT_SECONDS}",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "ControlMaster=auto",
    f"ControlPersist={_PERSIST_SECONDS}",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "RequestTTY=no",
    "LogLevel=ERROR",
)
_SOCKET_PATH = 41
"""Characters that the sockets' folder may have: 107 (unix(7)), less hashes of 40 and 8, and 17 that ssh adds."""
_FORGET_SECONDS = 3.0
_POLL_SECONDS = 0.05
_RSYNC_POLL_SECONDS = 1.0
_RSYNC_MARK = "KIT-RSYNC"
_AFTER_MARK = f'"$@" | {{ while IFS= read -r line; do [ "$line" = {_RSYNC_MARK} ] && exec cat; done; }}'
"""Leaves out what a login shell prints before rsync starts, which rsync would take for its protocol."""
_VANISHED, _PARTIAL = 24, 23
_LOCAL_TROUBLE = re.compile(r"^rsync: \[(?:receiver|generator)\] (.*) \((\d+)\)$", re.IGNORECASE | re.MULTILINE)
_WAYS_OUT = (
    (
        r"Permission denied \((?P<how>[^)]*)\)",
        "it refuses this user's keys, or asks for a password",
        "ssh-copy-id {host}, or load the key with ssh-add",
    ),
    (r"Too many authentication failures", "it refuses the keys", "name one with IdentityFile in ssh's configuration"),
    (
        r"Host key verification failed|host key is known|IDENTIFICATION HAS CHANGED",
        "its host key is not known here, or has changed",
        "ssh {host} once by hand, and compare the key",
    ),
    (r"Could not resolve hostname", "its name does not resolve", "check the name, or ssh's configuration"),
    (
        r"Connection refused",
        "nothing answers at ssh's port there",
        "start sshd, or name its Port in ssh's configuration",
    ),
    (r"timed out|No route to host|unreachable", "it does not answer", "is it on, and does a firewall let ssh through?"),
    (
        r"Bad configuration option|terminating, \d+ bad|Can't open user config",
        "ssh cannot read its configuration",
        "ssh -G {host} shows where",
    ),
)


class HostError(OSError):
    """A host cannot do what is asked of it: what was seen, beginning with its name, and what mends it if known."""

    def __init__(self, seen: str, *, mend: str = "") -> None:
        super().__init__(f"{seen}: {mend}" if mend else seen)
        self.seen, self.mend = seen, mend


class LostError(HostError):
    """The connection to a host cannot be made, or broke."""


class OpenSsh:
    """The command ssh, with a configuration (`ssh -F`) or the user's own."""

    def __init__(self, config: str = "") -> None:
        self.config = config

    def command(self, host: str, words: list[str]) -> list[str]:
        """Return the command that runs words on a host, each quoted for the shell there."""
        return [*self._client(host), "-T", "--", host, shlex.join(words)]

    def output(self, host: str, words: list[str], given: bytes, seconds: float, most: int) -> bytes:
        """Run words on a host with an input, and return what they print; OSError says why that fails.

        It may take so many seconds, and print so many bytes at most.
        """
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout:
            stdin.write(given)
            stdin.seek(0)
            until, size = clock.monotonic() + seconds, 0
            process = subprocess.Popen(
                self.command(host, words),
                stdin=stdin,
                stdout=stdout,
                stderr=subprocess.STDOUT,
                env=environment(),
                start_new_session=True,
            )
            try:
                while process.poll() is None and clock.monotonic() < until and size <= most:
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(_POLL_SECONDS)
                    size = os.fstat(stdout.fileno()).st_size
                is_late = process.poll() is None
            finally:
                process.kill()
                process.wait()
            if is_late:
                raise OSError(
                    errno.ETIMEDOUT, "it prints without end" if size > most else f"no answer in {seconds:g} s"
                )
            return os.pread(stdout.fileno(), most, 0)

    def send(self, host: str, root: Path, names: Sequence[str], folder: str, meanwhile: Callable[[], object]) -> None:
        """Bring files below a root into a folder of a host; those of the same size and time are there already."""
        to = f"{_bracketed(host)}:{folder}/"
        given = "\0".join(names).encode("utf-8", "surrogateescape")
        code, said = self._rsync(host, ["-tLO", "--from0", "--files-from=-", f"{root}/", to], given, meanwhile)
        if code == _PARTIAL or _LOCAL_TROUBLE.search(said):
            raise HostError(f"host {host}: {one_line(said.splitlines()[0], 300)}")
        if code:
            raise lost(host, said)

    def fetch(self, host: str, words: list[str], folder: str, to: Path, meanwhile: Callable[[], object]) -> None:
        """Append to files below `to` what those of a host's folder have more, and bring new ones.

        OSError if that fails here, LostError for a lost connection, HostError if the host cannot read some files.
        """
        place = f"{_bracketed(host)}:{folder}/"
        words = ["--append", "--prune-empty-dirs", *words, place, "./"]
        code, said = self._rsync(host, words, b"", meanwhile, to)  # there, as rsync would make a folder that is gone
        if trouble := _LOCAL_TROUBLE.search(said):
            raise OSError(int(trouble[2]), one_line(trouble[1], 300))
        if code == _PARTIAL:
            raise HostError(f"host {host}: {one_line(said.splitlines()[0], 300)}")
        if code not in (0, _VANISHED):
            raise lost(host, said)

    def is_shared(self, host: str) -> bool:
        """Return whether there is a shared connection to a host; it may no longer work."""
        return any(self._sockets(host))

    def forget(self, host: str) -> None:
        """Share a connection to a host no more: it no longer answers, and its own process may not either.

        Other runs of this user may go over it, for whom it works: it ends with the last of them.
        """
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [*self._client(host), "-O", "stop", "--", host],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_FORGET_SECONDS,
                check=False,
                start_new_session=True,
            )
        for socket in self._sockets(host):
            socket.unlink(missing_ok=True)

    def _rsync(
        self, host: str, words: list[str], given: bytes, meanwhile: Callable[[], object], here: Path | None = None
    ) -> tuple[int, str]:
        """Run rsync; `meanwhile` is called now and then while it runs, and ends it if it raises."""
        shell = ["sh", "-c", _AFTER_MARK, "sh", *self._client(host), "-T"]
        over = " ".join("'" + word.replace("'", "''") + "'" for word in shell)  # as rsync(1) reads it
        start = f"echo; echo {_RSYNC_MARK}; rsync"
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as said:
            stdin.write(given)
            stdin.seek(0)
            process = subprocess.Popen(
                ["rsync", "-r", "--protect-args", "--timeout=30", "-e", over, f"--rsync-path={start}", *words],
                stdin=stdin,
                stdout=subprocess.DEVNULL,
                stderr=said,
                cwd=here,
                env=environment(),
                start_new_session=True,
            )
            try:
                while process.poll() is None:
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(_RSYNC_POLL_SECONDS)
                    meanwhile()
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            return process.returncode, os.pread(said.fileno(), 100_000, 0).decode("utf-8", "replace").strip()

    def _sockets(self, host: str) -> Iterator[Path]:
        return _folder().glob(f"{self._own(host)}*")

    def _own(self, host: str) -> str:
        """Return what the name of the socket begins with; the rest is ssh's hash of address, port and user."""
        return hashlib.sha256(f"{self.config}\0{host}".encode("utf-8", "surrogateescape")).hexdigest()[:8]

    def _client(self, host: str) -> list[str]:
        options = (*_OPTIONS, f"ControlPath={_folder()}/{self._own(host)}%C")
        return [
            "ssh",
            *(["-F", self.config] if self.config else []),
            *(word for option in options for word in ("-o", option)),
        ]


def environment() -> dict[str, str]:
    """Return the environment of ssh: nothing that it starts, for example for a ProxyJump, may ask in a window."""
    return {**os.environ, "SSH_ASKPASS_REQUIRE": "never"}


def lost(host: str, said: str) -> LostError:
    """Return what is wrong with the connection to a host, of what ssh printed; and the way out, if it is known."""
    lines = [line for line in said.splitlines() if line.strip()]
    for pattern, seen, way in _WAYS_OUT:
        for line in reversed(lines):
            if re.search(pattern, line, re.IGNORECASE):
                return LostError(f"host {host}: {seen}", mend=f"{way.format(host=host)} ({one_line(line, 200)})")
    return LostError(f"host {host}: {one_line(lines[-1], 300) if lines else 'the connection was closed'}")


def _bracketed(host: str) -> str:
    """Write a host as rsync takes it, which reads a colon as the end of its name."""
    user, at, name = host.rpartition("@")
    return f"{user}{at}[{name}]" if ":" in name else host


def _folder() -> Path:
    """Return the folder of the sockets, which nobody else may enter; RequestError if somebody else made it."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    usable = 0 < len(runtime) < _SOCKET_PATH - len("/kit-ssh") and "%" not in runtime and os.access(runtime, os.W_OK)
    temporary = tempfile.gettempdir()
    if len(temporary) >= _SOCKET_PATH - len("/kit-ssh-1234567890") or "%" in temporary:
        temporary = "/tmp"  # noqa: S108 - a short one; whoever made its folder is looked at below
    folder = Path(runtime, "kit-ssh") if usable else Path(temporary, f"kit-ssh-{os.geteuid()}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    held = folder.lstat()
    if not stat.S_ISDIR(held.st_mode) or held.st_uid != os.geteuid() or held.st_mode & 0o077:
        raise RequestError(f"{folder}: it is not this user's alone: remove it, ssh's sockets are kept there")
    return folder
