"""Nodes that were started by hand agree on one run before any of them trains.

Node 0 listens; every other node sends its number and a hash of what it is about to do, and gets the run's id. So a node
that never comes is named, and nodes that would do different things are refused, while torchrun would only wait.

    caller -> {"node", "work", "nonce"}       node 0 -> {"nonce"}
    caller -> {"proof"}                       node 0 -> {"run", "proof"} or {"refused", "proof"}

Both sides prove that they know the secret, if people gave them one. A proof is a response to a challenge: HMAC-SHA256
(RFC 2104) over the nonces of both sides and all that was said. A message is one line of JSON.
"""

import asyncio
import errno
import hashlib
import hmac
import json
import re
import secrets
import socket
from collections.abc import Callable, MutableMapping
from contextlib import closing
from pathlib import Path
from typing import Any

from runner.core import clock
from runner.core.errors import RequestError, RunError, reason_of
from runner.core.text import one_line
from runner.core.values import whole
from runner.targets.torchrun import MASTER_PORT, RENDEZVOUS_SECONDS
from trainkit import files

SECRET, SECRET_FILE = "KIT_HANDSHAKE_SECRET", "KIT_HANDSHAKE_SECRET_FILE"
LONGEST_BYTES = 4_096
"""Of a message, and of a secret."""
SHORTEST_SECRET = 16
PORT = MASTER_PORT + 1
SAY_SECONDS = 10.0
CALL_SECONDS = 5.0
"""The whole exchange with one caller; whoever is slower is dropped."""
MOST_CALLERS = 64
"""Callers at the same time; further ones are dropped at once."""
_RUN = re.compile(r"\d{8}T\d{6}Z-[a-z0-9_]{1,32}-[0-9a-f]{8}", re.ASCII)
_UNPROVEN = f"it does not know this node's secret: set the same {SECRET} on all nodes"


def read_secret(environment: MutableMapping[str, str]) -> bytes:
    """Take the secret out of the environment, so that no process that is started later gets it; empty if there is none.

    RequestError for one that cannot be read or is too short.
    """
    where, secret = SECRET, environment.pop(SECRET, "").encode("utf-8", "surrogateescape")
    path = environment.get(SECRET_FILE)
    if not secret and path:
        where = f"{SECRET_FILE}={path}"
        try:
            secret = files.read_file(Path(path), LONGEST_BYTES).strip()
        except OSError as error:
            raise RequestError(f"{where}: cannot be read: {error.strerror}") from None
    if (secret or path) and len(secret) < SHORTEST_SECRET:
        raise RequestError(
            f"{where}: a secret needs at least {SHORTEST_SECRET} characters; make one with: openssl rand -hex 16"
        )
    return secret


def host(
    run: str,
    work: str,
    nodes: int,
    master: str,
    secret: bytes,
    say: Callable[[str], None],
    *,
    seconds: float = RENDEZVOUS_SECONDS,
    port: int = PORT,
) -> None:
    """Wait, as node 0, for all others; RunError names the nodes that did not come.

    They get the run's id. A node that brings another hash of the work is refused. The address `master` is that by which
    the others reach this node: only there does it listen. The secret is empty if people gave none.
    """
    if nodes > 1:
        with closing(_listen(master, port, say)) as listening:
            asyncio.run(_Host(run, work, nodes, secret, say).wait(listening, seconds))


def join(
    master: str,
    node: int,
    work: str,
    secret: bytes,
    say: Callable[[str], None],
    *,
    seconds: float = RENDEZVOUS_SECONDS,
    port: int = PORT,
) -> str:
    """Go, as another node, to node 0 at `master`; return the run's id.

    Raises RunError if it does not answer, RequestError if it refuses.
    """

    async def keep_asking() -> str:
        said = clock.monotonic()
        deadline = said + seconds
        while True:
            try:
                return await asyncio.wait_for(_ask(master, port, node, work, secret), CALL_SECONDS)
            except asyncio.TimeoutError:
                why = "no answer"
            except (OSError, ValueError, KeyError, RecursionError) as error:
                why = one_line(reason_of(error))
            if clock.monotonic() > deadline:
                raise RunError(f"node 0 did not answer at {master}:{port} within {seconds:g} s: {why}")
            if clock.monotonic() - said > SAY_SECONDS:
                said = clock.monotonic()
                say(f"waiting for node 0 at {master}:{port}: {why}")
            await asyncio.sleep(0.2)

    return asyncio.run(keep_asking())


class _Host:
    """Node 0, and the nodes that are missing."""

    def __init__(self, run: str, work: str, nodes: int, secret: bytes, say: Callable[[str], None]) -> None:
        self._run, self._work, self._secret, self._say = run, work, secret, say
        self._missing = set(range(1, nodes))
        self._callers = 0
        self._all_here = asyncio.Event()

    async def wait(self, listening: socket.socket, seconds: float) -> None:
        """Serve every caller on its own until all nodes are here."""
        deadline = clock.monotonic() + seconds
        where = "{}:{}".format(*listening.getsockname())
        server = await asyncio.start_server(self._serve, sock=listening, limit=LONGEST_BYTES)
        try:
            while self._missing:
                left = deadline - clock.monotonic()
                if left <= 0:
                    who = _names(self._missing)
                    how = "started? on one network with node 0? with the --master that node 0 has?"
                    raise RunError(f"{who} did not come to {where} within {seconds:g} s: {how}")
                try:
                    await asyncio.wait_for(self._all_here.wait(), min(left, SAY_SECONDS))
                except asyncio.TimeoutError:
                    if deadline > clock.monotonic():
                        self._say(f"waiting for {_names(self._missing)} at {where}")
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._callers += 1
        try:
            if self._callers <= MOST_CALLERS:
                await asyncio.wait_for(self._answer(reader, writer), CALL_SECONDS)
        except (OSError, ValueError, KeyError, RecursionError, asyncio.TimeoutError, asyncio.CancelledError):
            pass  # a stranger, or a node that will call again; or all are here
        finally:
            self._callers -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await _receive(reader)
        node, work, theirs = whole(asked["node"]), str(asked["work"]), str(asked["nonce"])
        if node is None:
            return
        ours = secrets.token_hex(16)
        _send(writer, {"nonce": ours})
        said = (theirs, ours, node, work)
        if not _is_equal((await _receive(reader))["proof"], _prove(self._secret, "caller", *said)):
            self._say(f"a caller says that it is node {node}, but {_UNPROVEN}")
            _send(writer, {"refused": f"node 0 has another secret than this node: set the same {SECRET} on all nodes"})
        elif refusal := self._refusal(node, work):
            self._say(refusal)
            _send(writer, {"refused": refusal, "proof": _prove(self._secret, "no", *said, refusal)})
        else:
            _send(writer, {"run": self._run, "proof": _prove(self._secret, "yes", *said, self._run)})
            await writer.drain()
            self._missing.discard(node)
            if not self._missing:
                self._all_here.set()
        await writer.drain()

    def _refusal(self, node: int, work: str) -> str | None:
        if node not in self._missing:
            return f"node 0 waits for {_names(self._missing)}, not for a node {node}"
        if work != self._work:
            return f"node {node} has another experiment, args, layout or programs than node 0"
        return None


async def _ask(master: str, port: int, node: int, work: str, secret: bytes) -> str:
    """Ask once; ValueError for an answer that makes no sense or comes from somebody without the secret."""
    reader, writer = await asyncio.open_connection(master, port, limit=LONGEST_BYTES)
    try:
        ours = secrets.token_hex(16)
        _send(writer, {"node": node, "work": work, "nonce": ours})
        said = (ours, str((await _receive(reader))["nonce"]), node, work)
        _send(writer, {"proof": _prove(secret, "caller", *said)})
        answer = await _receive(reader)
    finally:
        writer.close()
    kind, told = ("no", str(answer["refused"])) if "refused" in answer else ("yes", str(answer["run"]))
    proven = _is_equal(answer.get("proof"), _prove(secret, kind, *said, told))
    if kind == "no":
        raise RequestError(
            one_line(told) if proven else f"node 0 at {master}:{port} refuses this node: {one_line(told)}"
        )
    if not proven:
        raise ValueError(_UNPROVEN)
    if not _RUN.fullmatch(told):
        raise ValueError("its answer is no run's id")
    return told


def _prove(secret: bytes, *said: object) -> str:
    """Return the proof over everything that was said; without a secret it shows only that both said the same."""
    return hmac.new(secret, json.dumps(said).encode(), hashlib.sha256).hexdigest()


def _is_equal(proof: object, expected: str) -> bool:
    return hmac.compare_digest(str(proof).encode(), expected.encode())


def _send(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    writer.write(json.dumps(message).encode() + b"\n")


async def _receive(reader: asyncio.StreamReader) -> dict[str, Any]:
    """Receive a message; ValueError for one that is too long or makes no sense."""
    message = json.loads(await reader.readline())
    if not isinstance(message, dict):
        raise ValueError("an answer that makes no sense")  # noqa: TRY004 - the value is wrong, not its use
    return message


def _listen(master: str, port: int, say: Callable[[str], None]) -> socket.socket:
    """Listen at the address by which the others reach this node; at all addresses if it is none of this machine's."""
    in_use = RequestError(f"port {port} is in use: does another run wait for its nodes on this machine?")
    try:
        found = socket.getaddrinfo(master, port, type=socket.SOCK_STREAM)
    except OSError:
        found = []
    for family, _, _, _, address in found:
        try:
            return socket.create_server(address, family=family)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise in_use from None
    say(f"--master {master} is no address of this machine: node 0 listens at all of its addresses")
    try:
        return socket.create_server(("", port))
    except OSError:
        raise in_use from None


def _names(nodes: set[int]) -> str:
    numbers = sorted(nodes)
    return f"node{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"
