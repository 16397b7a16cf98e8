"""A conversation with one host: the script of `on_host`, run by the host's Python at the other end of ssh."""

from __future__ import annotations

import fcntl
import json
import os
import selectors
import subprocess
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import msgspec

from runner.core import clock, ports
from runner.core.text import listed, one_line
from runner.targets import clean_environment
from runner.targets.ssh import host_facts, host_frames, host_run, host_tidy, on_host
from runner.targets.ssh.openssh import CONNECT_SECONDS, OpenSsh, environment, explain
from runner.targets.ssh.verdicts import OLDEST_PYTHON, PYTHON_WAY

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
_MODULES = (ports, clean_environment, host_frames, host_facts, host_tidy, host_run, on_host)
"""What runs on a host; each module imports those before it."""
SILENT_SECONDS = 8.0
"""A host that says nothing for so long, though it was asked, is no longer connected."""
ANSWER_SECONDS = 60.0
_LARGEST_NOISE = 65_536
_MOST_WORDS = 1_000_000
_POLL_SECONDS = 0.2
_SSH_FAILED = 255
_NOT_FOUND = (126, 127)
MOST_AT_ONCE = 16
_Item = TypeVar("_Item")
_Got = TypeVar("_Got")


class HostError(OSError):
    """A host cannot do what is asked of it: what was seen, beginning with its name, and what mends it if known."""

    def __init__(self, seen: str, *, mend: str = "") -> None:
        super().__init__(f"{seen}: {mend}" if mend else seen)
        self.seen, self.mend = seen, mend


class LostError(HostError):
    """The connection to a host cannot be made, or broke."""


def source() -> str:
    """Return the two lines by which a host's Python loads what runs there."""
    texts = [(module.__name__, Path(str(module.__file__)).read_text("utf-8")) for module in _MODULES]
    return f"{json.dumps(_LOAD)}\n{json.dumps(texts)}\n"


def connect(ssh: OpenSsh, host: str, python: str) -> Session:
    """Begin a conversation; a shared connection that no longer answers, as of a host that restarted, is made again."""
    if ssh.is_shared(host):
        try:
            return Session(ssh, host, python, seconds=SILENT_SECONDS)
        except LostError:
            ssh.forget(host)
    return Session(ssh, host, python)


class Sessions:
    """Conversations that another thread can end all at once, and those that are begun later."""

    def __init__(self) -> None:
        self.is_over = False
        self._begun: list[Session] = []

    @contextmanager
    def connect(self, ssh: OpenSsh, host: str, python: str) -> Iterator[Session]:
        """Begin one, and close it at the end."""
        with closing(connect(ssh, host, python)) as session:
            self._begun.append(session)
            if self.is_over:
                session.abort()
            yield session

    def abort(self) -> None:
        """Let nobody wait for a host any longer."""
        self.is_over = True
        for session in self._begun:
            session.abort()


class Session:
    """One process of the script on a host, which greets within so many seconds; it ends with its connection.

    Raises LostError if the host cannot be reached, HostError if there is no such Python.
    """

    def __init__(
        self, ssh: OpenSsh, host: str, python: str, *, seconds: float = CONNECT_SECONDS + SILENT_SECONDS
    ) -> None:
        self.host, self._ssh, self._python = host, ssh, python
        self._said = os.memfd_create("kit-ssh")
        fcntl.fcntl(self._said, fcntl.F_SETFL, os.O_APPEND)  # so that it can be emptied while ssh writes to it
        self._buffer = b""
        try:
            self._process = subprocess.Popen(
                ssh.command(host, [python, "-c", BOOT]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                env=environment(),
                start_new_session=True,
            )
        except FileNotFoundError:
            os.close(self._said)
            raise HostError("there is no ssh here", mend="install OpenSSH's client") from None
        assert self._process.stdin and self._process.stdout  # noqa: S101, PT018 - they were asked for
        self._in, self._out = self._process.stdin, self._process.stdout
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ)
        try:
            self._write(f'{source()}{{"do": "hello"}}\n'.encode())
            self._greet(seconds)
        except BaseException:
            self.close()
            raise

    def abort(self) -> None:
        """Let whoever waits for the host, in another thread, wait no longer; to be closed by them."""
        self._process.kill()

    def close(self) -> None:
        """End the process at this end, upon which the one on the host ends."""
        if self._said < 0:
            return
        self._selector.close()
        with suppress(OSError):
            self._in.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.5)
        self._process.kill()
        self._process.wait()
        self._out.close()
        os.close(self._said)
        self._said = -1

    def ask(self, do: str, blocks: Iterable[bytes] | None = None, /, **words: Any) -> dict[str, Any]:
        """Ask for something, with a stream of bytes if there are blocks; HostError if the host refuses.

        It may refuse before all is sent. What takes long there is waited for as long as the host says that it goes on.
        """
        self.send(do, **words)
        for block in blocks or ():
            if block:
                self.send("bytes", block)
            if (got := self.receive(0)) is not None and "answer" in got[0]:
                return self.answer(got[0])
        if blocks is not None:
            self.send("bytes")
        until = clock.monotonic() + ANSWER_SECONDS
        while clock.monotonic() < until:
            got = self.receive(1.0)
            if got is not None and "answer" in got[0]:
                return self.answer(got[0])
            until = clock.monotonic() + ANSWER_SECONDS if got is not None else until
        raise LostError(f"host {self.host}: it does not answer for {ANSWER_SECONDS:.0f} s")

    def told(self, kind: type[_Got], do: str, **words: Any) -> _Got:
        """Ask for something whose answer has a type."""
        try:
            return msgspec.convert(self.ask(do, **words), kind)
        except msgspec.ValidationError:
            self._refuse()

    def answer(self, frame: dict[str, Any]) -> dict[str, Any]:
        """Return the answer in a frame; HostError if it is an error."""
        answer: dict[str, Any] = frame["answer"]
        if "error" in answer:
            raise HostError(f"host {self.host}: {one_line(answer['error'], 500)}")
        return answer

    def send(self, do: str, data: bytes = b"", /, **words: Any) -> None:
        """Send a request without waiting for its answer."""
        frame = {"do": do, **words, **({"bytes": len(data)} if data else {})}
        self._write(json.dumps(frame).encode() + b"\n" + data)

    def receive(self, seconds: float) -> tuple[dict[str, Any], bytes] | None:
        """Return the next frame, or None if none has come; LostError at the end of the connection."""
        until = clock.monotonic() + seconds
        while True:
            head, newline, rest = self._buffer.partition(b"\n")
            if newline:
                frame = self._decode(head)
                size: int = frame.get("bytes", 0)
                if len(rest) >= size:
                    self._buffer = rest[size:]
                    return frame, rest[:size]
            left = until - clock.monotonic()
            if not self._read(max(0.0, left)) and left <= 0:
                return None

    def _greet(self, seconds: float) -> None:
        """Wait for the script's first line; whatever the host's shell or Python prints before it is left out."""
        until = clock.monotonic() + seconds
        hello = f"\n{on_host.HELLO}\n".encode()
        while hello not in self._buffer:
            if len(self._buffer) > _LARGEST_NOISE:
                raise HostError(f"host {self.host}: its shell prints without end at the login")
            left = until - clock.monotonic()
            if left <= 0:
                if self._ssh.is_shared(self.host):
                    raise LostError(
                        f"host {self.host}: ssh reaches it, but {self._python} says nothing",
                        mend="try it there by hand, or name another one with --with python=PATH",
                    )
                raise LostError(
                    f"host {self.host}: it does not answer", mend="is it on, and does a firewall let ssh through?"
                )
            self._read(left)
        self._buffer = self._buffer.partition(hello)[2]

    def _read(self, seconds: float) -> bool:
        """Read what has come, and wait for it a while, at most so long; what ssh has to say is kept small meanwhile."""
        if os.fstat(self._said).st_size > _MOST_WORDS:
            os.ftruncate(self._said, 0)
        if not self._selector.select(min(seconds, _POLL_SECONDS)):
            return False
        block = os.read(self._out.fileno(), 262_144)
        if not block:
            self._raise_end()
        self._buffer += block
        return True

    def _write(self, data: bytes) -> None:
        try:
            self._in.write(data)
            self._in.flush()
        except OSError:
            self._raise_end()

    def _raise_end(self) -> None:
        """Raise what the end of the connection means."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
        code = self._process.poll()
        said = os.pread(self._said, 100_000, 0).decode("utf-8", "replace")
        if code in _NOT_FOUND:
            raise HostError(
                f"host {self.host}: there is no Python at {self._python}",
                mend="name one that it has with --with python=PATH",
            )
        if code == _SSH_FAILED or code is None:
            seen, mend = explain(self.host, said)
            raise LostError(seen, mend=mend)
        last = said.strip().splitlines()
        if last and last[-1].startswith(_TOO_OLD):
            version, oldest = one_line(last[-1].removeprefix(_TOO_OLD), 20), ".".join(map(str, OLDEST_PYTHON))
            seen = f"host {self.host}: {self._python} is Python {version}, {oldest} is the oldest that the kit runs on"
            raise HostError(seen, mend=PYTHON_WAY)
        msg = f"host {self.host}: {self._python} ended with {code}{f': {one_line(last[-1], 300)}' if last else ''}"
        raise LostError(msg) if code < 0 else HostError(msg)

    def _decode(self, head: bytes) -> dict[str, Any]:
        try:
            return dict(json.loads(head))
        except (ValueError, TypeError):
            self._refuse()

    def _refuse(self) -> NoReturn:
        raise HostError(f"host {self.host}: what it sends is not what the kit's script sends")


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

    with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
        return list(pool.map(done, items))
