"""A conversation with one host: the script of `on_host`, run by the host's Python at the other end of ssh."""

from __future__ import annotations

import json
import os
import select
import subprocess
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from runner.core import clock, ports
from runner.core.text import listed, one_line
from runner.targets import clean_environment
from runner.targets.ssh import on_host
from runner.targets.ssh.openssh import CONNECT_SECONDS, HostError, LostError, OpenSsh, environment, lost

OLDEST_PYTHON = (3, 10)
PYTHON_WAY = "name another Python with --with python=PATH"
BOOT = "import sys;sys.path[:]=[p for p in sys.path if p];import json;exec(json.loads(sys.stdin.buffer.readline()))"
"""What a host's Python is started with: the rest comes over its stdin, where no shell reads it."""
_TOO_OLD = "KIT: too old a Python: "
_LOAD = f"""
import json, sys, types
if sys.version_info < {OLDEST_PYTHON}:
    sys.exit("{_TOO_OLD}%d.%d.%d" % sys.version_info[:3])
for name, text in json.loads(sys.stdin.buffer.readline()):
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
module.main()
"""
MODULES = (ports, clean_environment, on_host)
"""What runs on a host; each module imports those before it."""
SILENT_SECONDS = 8.0
"""A host that says nothing for so long, though it was asked, is no longer connected."""
_ANSWER_SECONDS = 60.0
_LARGEST_NOISE = 1_000_000
_SSH_FAILED = 255
_NOT_FOUND = (126, 127)
_MOST_AT_ONCE = 16
_Item = TypeVar("_Item")
_Got = TypeVar("_Got")


class Session:
    """One process of the script on a host; it ends with its connection.

    Raises LostError if the host cannot be reached, HostError if there is no such Python.
    """

    def __init__(
        self, ssh: OpenSsh, host: str, python: str, *, seconds: float = CONNECT_SECONDS + SILENT_SECONDS
    ) -> None:
        self.host, self._ssh, self._python = host, ssh, python
        self._buffer, self._unread = b"", 0
        self._said: deque[str] = deque(maxlen=20)
        """What else was printed there, or by ssh."""
        try:
            self._process = subprocess.Popen(
                ssh.command(host, [python, "-c", BOOT]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment(),
                start_new_session=True,
            )
        except FileNotFoundError:
            raise HostError("there is no ssh here", mend="install OpenSSH's client") from None
        assert self._process.stdin and self._process.stdout  # noqa: S101, PT018 - they were asked for
        self._in, self._out = self._process.stdin, self._process.stdout
        self._ready = select.poll()
        self._ready.register(self._out, select.POLLIN)
        texts = [(module.__name__, Path(str(module.__file__)).read_text("utf-8")) for module in MODULES]
        try:
            self._write(f"{json.dumps(_LOAD)}\n{json.dumps(texts)}\n")
            self._answer(seconds)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the process at this end, upon which the one on the host ends."""
        with suppress(OSError):
            self._in.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.5)
        self._process.kill()
        self._process.wait()
        self._out.close()

    def ask(self, do: str, seconds: float = _ANSWER_SECONDS, /, **words: Any) -> dict[str, Any]:
        """Ask for something; HostError if the host refuses, LostError if it does not answer in time."""
        self._write(json.dumps({"do": do, **words}) + "\n")
        answer = self._answer(seconds)
        if "error" in answer:
            raise HostError(f"host {self.host}: {one_line(answer['error'], 500)}")
        return answer

    def _write(self, text: str) -> None:
        with suppress(OSError):  # what is read next is the reason
            self._in.write(text.encode())
            self._in.flush()

    def _answer(self, seconds: float) -> dict[str, Any]:
        """Wait for the script's next answer; leave out what the host's shell or Python prints beside it."""
        until = clock.monotonic() + seconds
        while True:
            line, newline, rest = self._buffer.partition(b"\n")
            if newline:
                self._buffer = rest
                if line.startswith(on_host.HELLO.encode()):
                    self._unread = 0
                    try:
                        return dict(json.loads(line[len(on_host.HELLO) :]))
                    except (ValueError, TypeError):
                        raise HostError(f"host {self.host}: what it sends is no answer of the kit's script") from None
                if line.strip():
                    self._said.append(line.decode("utf-8", "replace"))
                continue
            if self._unread > _LARGEST_NOISE:
                raise HostError(f"host {self.host}: its shell prints without end at the login")
            left = until - clock.monotonic()
            if left <= 0:
                self._raise_silence(seconds)
            if self._ready.poll(left * 1000):
                block = os.read(self._out.fileno(), 262_144)
                if not block:
                    self._raise_end()
                self._buffer += block
                self._unread += len(block)

    def _raise_silence(self, seconds: float) -> NoReturn:
        if self._ssh.is_shared(self.host):
            raise LostError(
                f"host {self.host}: ssh reaches it, but {self._python} says nothing for {seconds:.0f} s",
                mend="try it there by hand, or name another one with --with python=PATH",
            )
        raise LostError(f"host {self.host}: it does not answer", mend="is it on, and does a firewall let ssh through?")

    def _raise_end(self) -> NoReturn:
        """Raise what the end of the connection means."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
        code = self._process.poll()
        if code in _NOT_FOUND:
            raise HostError(
                f"host {self.host}: there is no Python at {self._python}",
                mend="name one that it has with --with python=PATH",
            )
        self._said.extend(self._buffer.decode("utf-8", "replace").splitlines())
        if code == _SSH_FAILED or code is None:
            raise lost(self.host, "\n".join(self._said))
        last = self._said[-1] if self._said else ""
        if last.startswith(_TOO_OLD):
            version, oldest = one_line(last.removeprefix(_TOO_OLD), 20), ".".join(map(str, OLDEST_PYTHON))
            seen = f"host {self.host}: {self._python} is Python {version}, {oldest} is the oldest that the kit runs on"
            raise HostError(seen, mend=PYTHON_WAY)
        msg = f"host {self.host}: {self._python} ended with {code}{f': {one_line(last, 300)}' if last else ''}"
        raise LostError(msg) if code < 0 else HostError(msg)


def connect(ssh: OpenSsh, host: str, python: str) -> Session:
    """Begin a conversation; a shared connection that no longer answers, as of a host that restarted, is made again."""
    if ssh.is_shared(host):
        try:
            return Session(ssh, host, python, seconds=SILENT_SECONDS)
        except LostError:
            ssh.forget(host)
    return Session(ssh, host, python)


def on_all(do: Callable[[_Item], _Got], items: Iterable[_Item]) -> list[_Got]:
    """Do something on all hosts at once; HostError with the first line of each that failed."""
    got = attempt(do, items)
    if errors := [result for result in got if isinstance(result, HostError)]:
        for result in got:
            if isinstance(result, Session):
                result.close()
        raise HostError(listed(dict.fromkeys(map(str, errors)), "; "))
    return [result for result in got if not isinstance(result, HostError)]


def attempt(do: Callable[[_Item], _Got], items: Iterable[_Item]) -> list[_Got | HostError]:
    """Do something with all at once; for what cannot be done, return its error."""

    def done(item: _Item) -> _Got | HostError:
        try:
            return do(item)
        except OSError as error:
            return error if isinstance(error, HostError) else HostError(str(error))

    with ThreadPoolExecutor(_MOST_AT_ONCE) as pool:
        return list(pool.map(done, items))
