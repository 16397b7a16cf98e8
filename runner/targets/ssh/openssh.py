"""Call OpenSSH's client and rsync, and interpret their errors.

All commands to a host share a connection (ControlMaster, ssh_config(5)). The connection's socket is in a
folder that only the user can access. BatchMode keeps ssh from asking for a password or a host key.
"""

import hashlib
import json
import os
import re
import shlex
import signal
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from runner.core import ports
from runner.core.text import one_line
from runner.targets import clean_environment
from runner.targets.ssh import on_host

_Item = TypeVar("_Item")
_Got = TypeVar("_Got")
SILENT_SECONDS = 8.0
"""A connection counts as lost after this time without an answer."""
_CONNECT_SECONDS = 10
_OPTIONS = (
    "BatchMode=yes",
    f"ConnectTimeout={_CONNECT_SECONDS}",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
    "ControlMaster=auto",
    "ControlPersist=15",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
    "RequestTTY=no",
    "LogLevel=ERROR",
)
_SOCKETS = Path(f"/tmp/kit-ssh-{os.geteuid()}")  # noqa: S108 - its owner is checked
"""A short path: ssh and `_own` need 65 of the 107 characters of a socket's path (unix(7))."""
_FORGET_SECONDS = 3.0
_RSYNC_POLL_SECONDS = 1.0
BOOT = "import sys;sys.path[:]=[p for p in sys.path if p];exec(sys.stdin.buffer.read())"
"""Code for `python -c` on a host: read the script from stdin, where no shell interprets it.

The working directory is removed from sys.path, because its modules could shadow Python's.
"""
_SCRIPT = """
import sys, types
if sys.version_info < (3, 10):
    sys.exit("Python %d.%d.%d is too old, 3.10 is the oldest: name another with --with python=PATH"
             % sys.version_info[:3])
for name, text in {texts}:
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
module.main({do!r}, {words})
"""
MODULES = (ports, clean_environment, on_host)
"""Modules that run on a host; a module may import only earlier modules."""
_RSYNC_MARK = "KIT-RSYNC"
_AFTER_MARK = f'"$@" | {{ while IFS= read -r line; do [ "$line" = {_RSYNC_MARK} ] && exec cat; done; }}'
"""Filter that drops the output of a login shell before rsync starts, because it would corrupt rsync's protocol."""
_VANISHED, _PARTIAL = 24, 23
_LOCAL_TROUBLE = re.compile(r"^rsync: \[(?:receiver|generator)\] (.*) \((\d+)\)$", re.IGNORECASE | re.MULTILINE)
_MENDS = (
    (r"Permission denied \(|Too many authentication failures", "run ssh-copy-id {host}, or load the key with ssh-add"),
    (r"Host key verification failed|IDENTIFICATION HAS CHANGED", "run ssh {host} once by hand and compare the key"),
    (
        r"Could not resolve|Connection refused|timed out|No route to host|unreachable",
        "check its name and the firewall, and that it is on and runs sshd",
    ),
    (r"Bad configuration option|terminating, \d+ bad|Can't open user config", "ssh -G {host} shows the place"),
    (r"^rsync: ", ""),
)
"""Patterns of errors of ssh or rsync, most specific first, each with its fix."""


class HostError(OSError):
    """A request that failed on a host. `seen` names the host and the failure. `mend` is the fix, if known."""

    def __init__(self, seen: str, *, mend: str = "") -> None:
        super().__init__(f"{seen}: {mend}" if mend else seen)
        self.seen, self.mend = seen, mend


class LostError(HostError):
    """The connection to a host could not be made, or broke."""


class OpenSsh:
    """Calls ssh with the configuration file `config`, by default the user's. `python` is Python's path on the hosts."""

    def __init__(self, config: str = "", python: str = "python3") -> None:
        self.config, self.python = config, python

    def command(self, host: str, words: list[str]) -> list[str]:
        """Return the command that runs `words` on a host. The words are quoted for the host's shell."""
        return [*self._client(host), "-T", "--", host, shlex.join(words)]

    def connect(self, host: str) -> None:
        """Open a shared connection to a host. Replace a stale connection, for example after a reboot."""
        was_shared = self._is_shared(host)
        try:
            code, printed = self.run(host, ["true"], b"", SILENT_SECONDS)
            if code:
                raise lost(host, printed.decode("utf-8", "replace"))
        except LostError:
            self.forget(host)
            if not was_shared:
                raise
            self.connect(host)

    def ask(self, host: str, do: str, seconds: float = 60.0, /, **words: Any) -> Any:
        """Ask a host one question of `on_host`. Raises HostError if the question fails, LostError after a timeout."""
        texts = [(module.__name__, Path(str(module.__file__)).read_text("utf-8")) for module in MODULES]
        script = _SCRIPT.format(texts=ascii(texts), do=do, words=ascii(words)).encode()
        code, answer = self.run(host, [self.python, "-c", BOOT], script, seconds)
        printed, mark, line = answer.decode("utf-8", "replace").rpartition(f"\n{on_host.MARK}")
        if code == 0 and mark:
            return json.loads(line.partition("\n")[0])
        if code == 255 or code < 0:
            raise lost(host, line)
        if code in (126, 127):
            mend = "name another with --with python=PATH"
            raise HostError(f"host {host}: there is no Python at {self.python}", mend=mend)
        last = (printed + line).strip().rpartition("\n")[2]
        raise HostError(one_line(f"host {host}: {self.python} ended with {code}: {last}", 500))

    def run(self, host: str, words: list[str], given: bytes, seconds: float) -> tuple[int, bytes]:
        """Run a command on a host with stdin `given`. Return exit code and output. Raises LostError after a timeout."""
        seconds += 0 if self._is_shared(host) else _CONNECT_SECONDS
        with tempfile.TemporaryFile() as printed:  # not a pipe: ssh's background process would keep it open
            try:
                done = subprocess.run(
                    self.command(host, words),
                    input=given,
                    stdout=printed,
                    stderr=subprocess.STDOUT,
                    timeout=seconds,
                    env=_environment(),
                    start_new_session=True,
                    check=False,
                )
            except FileNotFoundError:
                raise HostError("ssh is not installed on this machine", mend="install OpenSSH's client") from None
            except subprocess.TimeoutExpired:
                seen = f"host {host}: no answer from {words[0]} in {seconds:g} s"
                raise LostError(seen, mend="try it by hand") from None
            printed.seek(0)
            return done.returncode, printed.read()

    def send(self, host: str, root: Path, names: Iterable[str], folder: str, meanwhile: Callable[[], object]) -> None:
        """Copy files below `root` to a folder of a host. Skip a file if the host's copy has the same size and time."""
        given = "\0".join(names).encode("utf-8", "surrogateescape")
        words = ["-tLO", "--from0", "--files-from=-", f"{root}/", f"{host}:{folder}/"]
        code, said = self._rsync(host, words, given, meanwhile)
        if code:
            raise lost(host, said)

    def fetch(self, host: str, words: list[str], folder: str, to: Path, meanwhile: Callable[[], object]) -> str:
        """Copy new files from a host's folder to `to`, and add what files of earlier copies lack.

        Returns an error message if the host could not read a file, otherwise "". Raises OSError after a local failure,
        and LostError if the connection is lost.
        """
        words = ["--append", "--prune-empty-dirs", *words, f"{host}:{folder}/", "./"]
        code, said = self._rsync(host, words, b"", meanwhile, to)  # as cwd, because rsync would create a missing `to`
        if trouble := _LOCAL_TROUBLE.search(said):
            raise OSError(int(trouble[2]), one_line(trouble[1], 300))
        if code not in (0, _PARTIAL, _VANISHED):
            raise lost(host, said)
        return str(lost(host, said)) if code == _PARTIAL else ""

    def forget(self, host: str) -> None:
        """Stop sharing a connection that no longer answers. The connection ends when no command uses it."""
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [*self._client(host), "-O", "stop", "--", host],
                capture_output=True,
                timeout=_FORGET_SECONDS,
                check=False,
                start_new_session=True,
            )
        for socket in _SOCKETS.glob(f"{self._own(host)}*"):  # the connection's process may not answer either
            socket.unlink(missing_ok=True)

    def _is_shared(self, host: str) -> bool:
        return any(_SOCKETS.glob(f"{self._own(host)}*"))

    def _rsync(
        self, host: str, words: list[str], given: bytes, meanwhile: Callable[[], object], here: Path | None = None
    ) -> tuple[int, str]:
        shell = ["sh", "-c", _AFTER_MARK, "sh", *self._client(host), "-T"]
        over = " ".join("'" + word.replace("'", "''") + "'" for word in shell)  # quoting of rsync(1)
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
                env=_environment(),
                start_new_session=True,
            )
            try:
                while process.poll() is None:
                    try:
                        process.wait(_RSYNC_POLL_SECONDS)
                    except subprocess.TimeoutExpired:
                        meanwhile()
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            return process.returncode, os.pread(said.fileno(), 100_000, 0).decode("utf-8", "replace")

    def _own(self, host: str) -> str:
        """Return the start of the name of a host's socket. ssh appends a hash of address, port and user (`%C`)."""
        return hashlib.sha256(f"{self.config}\0{host}".encode("utf-8", "surrogateescape")).hexdigest()[:8]

    def _client(self, host: str) -> list[str]:
        """Return the ssh command without a host. Raises HostError if other users can access the sockets' folder."""
        with suppress(FileExistsError):
            _SOCKETS.mkdir(mode=0o700)
        held = _SOCKETS.lstat()
        if not stat.S_ISDIR(held.st_mode) or held.st_uid != os.geteuid() or held.st_mode & 0o077:
            raise HostError(f"{_SOCKETS}: others can access this folder for ssh's sockets: remove it")
        options = (*_OPTIONS, f"ControlPath={_SOCKETS}/{self._own(host)}%C")
        named = ["-F", self.config] if self.config else []
        return ["ssh", *named, *(word for option in options for word in ("-o", option))]


def lost(host: str, said: str) -> LostError:
    """Make an error from the output `said` of ssh or rsync. Add the fix if it is known."""
    lines = [line for line in said.splitlines() if line.strip()]
    for pattern, mend in _MENDS:
        for line in lines:
            if re.search(pattern, line, re.IGNORECASE):
                return LostError(f"host {host}: {one_line(line.strip(), 300)}", mend=mend.format(host=host))
    return LostError(f"host {host}: {one_line(lines[-1], 300) if lines else 'the connection was closed'}")


def at_once(do: Callable[[_Item], _Got], items: Iterable[_Item]) -> list[_Got | HostError]:
    """Call a function with every item in parallel. Return the result or the HostError of each call."""

    def done(item: _Item) -> _Got | HostError:
        try:
            return do(item)
        except HostError as error:
            return error

    with ThreadPoolExecutor(16) as pool:
        return list(pool.map(done, items))


def _environment() -> dict[str, str]:
    # Keep even the ssh of a ProxyJump from asking in a window.
    return {**os.environ, "SSH_ASKPASS_REQUIRE": "never"}
