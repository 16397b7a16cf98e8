"""OpenSSH's own client: how it is called, and what its words mean.

One connection to a host is shared by all that goes there (ControlMaster, ssh_config(5)); its socket is in a folder of
the user's own. BatchMode keeps ssh from asking for a password or a host key. Nothing of a run stands in its command.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

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
_SOCKET_PATH = 60
"""Characters that the socket's folder may have: 108 less a hash of 40 and what ssh adds (unix(7))."""
_WAYS_OUT = (
    (
        r"Permission denied \((?P<how>[^)]*)\)",
        "it refuses this user's keys, or asks for a password: ssh-copy-id {host}, or load the key with ssh-add",
    ),
    (r"Too many authentication failures", "it refuses the keys: name one with IdentityFile in ssh's configuration"),
    (
        r"Host key verification failed|host key is known|IDENTIFICATION HAS CHANGED",
        "its host key is not known here, or has changed: ssh {host} once by hand, and compare the key",
    ),
    (r"Could not resolve hostname", "its name does not resolve: check the name, or ssh's configuration"),
    (r"Connection refused", "nothing answers at ssh's port there: start sshd, or name its Port in ssh's configuration"),
    (r"timed out|No route to host|unreachable", "it does not answer: is it on, and does a firewall let ssh through?"),
    (r"Bad configuration option|terminating, \d+ bad|Can't open user config", "ssh cannot read its configuration"),
)


class OpenSsh:
    """The command ssh.

    Args:
        config: a configuration for it (`ssh -F`); empty for the user's own.
    """

    def __init__(self, config: str = "") -> None:
        self.config = config

    def command(self, host: str, words: list[str]) -> list[str]:
        """Write the command that runs words on a host, each quoted for the shell there."""
        return [*self._client(), "-T", "--", host, shlex.join(words)]

    def forget(self, host: str) -> None:
        """End the shared connection to a host: it no longer answers."""
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [*self._client(), "-O", "exit", "--", host],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=3,
                check=False,
                start_new_session=True,
            )

    def _client(self) -> list[str]:
        own = hashlib.sha256(self.config.encode("utf-8", "surrogateescape")).hexdigest()[:4]
        options = (*_OPTIONS, f"ControlPath={_folder()}/{own}%C")
        return [
            "ssh",
            *(["-F", self.config] if self.config else []),
            *(word for one in options for word in ("-o", one)),
        ]


def explain(host: str, said: str) -> str:
    """Say in one line what is wrong with a host, of what ssh printed, and the way out."""
    lines = [line for line in said.splitlines() if line.strip()]
    for pattern, way in _WAYS_OUT:
        if re.search(pattern, said, re.IGNORECASE):
            last = next((line for line in reversed(lines) if re.search(pattern, line, re.IGNORECASE)), "")
            return f"host {host}: {way.format(host=host)} ({one_line(last, 200)})"
    return f"host {host}: {one_line(lines[-1], 300) if lines else 'the connection was closed'}"


def _folder() -> Path:
    """Return the folder of the sockets, which nobody else may enter; RequestError if somebody else made it."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    usable = 0 < len(runtime) < _SOCKET_PATH - len("/kit-ssh") and "%" not in runtime and os.access(runtime, os.W_OK)
    folder = Path(runtime, "kit-ssh") if usable else Path(_temporary(), f"kit-ssh-{os.geteuid()}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    held = folder.lstat()
    if not stat.S_ISDIR(held.st_mode) or held.st_uid != os.geteuid() or held.st_mode & 0o077:
        msg = f"{folder}: it is not this user's alone: remove it, ssh's sockets are kept there"
        raise RequestError(msg)
    return folder


def _temporary() -> str:
    place = tempfile.gettempdir()
    return place if len(place) < _SOCKET_PATH - len("/kit-ssh-1234567890") and "%" not in place else "/tmp"  # noqa: S108 - see above
