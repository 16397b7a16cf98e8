"""Nodes that were started by hand agree on one run before any of them trains.

Node 0 listens; every other node sends its number and a hash of what it is about to do, and gets the run's id. So a node
that never comes is named, and nodes that would do different things are refused, while torchrun would only wait.
Both sides prove that they know the secret, if people gave them one.

    caller -> {"node", "work", "nonce"}       node 0 -> {"nonce"}
    caller -> {"proof"}                       node 0 -> {"run", "proof"} or {"refused", "proof"}
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import re
import socket
from collections.abc import Callable
from contextlib import closing

from runner.core import clock
from runner.core.errors import RequestError, RunError
from runner.core.text import one_line
from runner.core.values import whole
from runner.execution.handshake_messages import LONGEST_BYTES, SECRET, new_nonce, nonce_of, prove, receive, send
from runner.targets.torchrun import MASTER_PORT, RENDEZVOUS_SECONDS

PORT = MASTER_PORT + 1
SAY_SECONDS = 10.0
CALL_SECONDS = 5.0
"""The whole exchange with one caller; whoever is slower is dropped."""
MOST_CALLERS = 64
"""Callers at the same time; further ones are dropped at once."""
_RUN = re.compile(r"\d{8}T\d{6}Z-[a-z0-9_]{1,32}-[0-9a-f]{8}", re.ASCII)
_UNPROVEN = f"it does not know this node's secret: set the same {SECRET} on all nodes"


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
    """Wait, as node 0, for all others.

    Args:
        run: the run's id, which they get.
        work: a hash of what is run; a node that brings another one is refused.
        nodes: how many nodes there are, this one included.
        master: the address by which the others reach this node; only there does it listen.
        secret: what the others have to know; empty if people gave none.
        say: is called now and then with who is missing.
        seconds: how long to wait.
        port: where to listen.

    Raises RunError naming the nodes that did not come.
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
    return asyncio.run(_join(master, node, work, secret, say, seconds, port))


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
        asked = await receive(reader)
        node, work, theirs = whole(asked["node"]), str(asked["work"]), nonce_of(asked)
        if node is None:
            return
        ours = new_nonce()
        send(writer, {"nonce": ours})
        proof = str((await receive(reader))["proof"])
        if not hmac.compare_digest(proof.encode(), prove(self._secret, "caller", theirs, ours, node, work).encode()):
            self._say(f"a caller says that it is node {node}, but {_UNPROVEN}")
            send(writer, {"refused": f"node 0 has another secret than this node: set the same {SECRET} on all nodes"})
        elif refusal := self._refusal(node, work):
            self._say(refusal)
            send(writer, {"refused": refusal, "proof": prove(self._secret, "no", theirs, ours, node, work, refusal)})
        else:
            send(writer, {"run": self._run, "proof": prove(self._secret, "yes", theirs, ours, node, work, self._run)})
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


async def _join(
    master: str, node: int, work: str, secret: bytes, say: Callable[[str], None], seconds: float, port: int
) -> str:
    deadline = clock.monotonic() + seconds
    said = clock.monotonic()
    while True:
        try:
            return await asyncio.wait_for(_ask(master, port, node, work, secret), CALL_SECONDS)
        except asyncio.TimeoutError:
            why = "no answer"
        except (OSError, ValueError, KeyError, RecursionError) as error:
            why = one_line(getattr(error, "strerror", None) or error)
        if clock.monotonic() > deadline:
            raise RunError(f"node 0 did not answer at {master}:{port} within {seconds:g} s: {why}")
        if clock.monotonic() - said > SAY_SECONDS:
            said = clock.monotonic()
            say(f"waiting for node 0 at {master}:{port}: {why}")
        await asyncio.sleep(0.2)


async def _ask(master: str, port: int, node: int, work: str, secret: bytes) -> str:
    """Ask once; ValueError for an answer that makes no sense or comes from somebody without the secret."""
    reader, writer = await asyncio.open_connection(master, port, limit=LONGEST_BYTES)
    try:
        ours = new_nonce()
        send(writer, {"node": node, "work": work, "nonce": ours})
        theirs = nonce_of(await receive(reader))
        send(writer, {"proof": prove(secret, "caller", ours, theirs, node, work)})
        answer = await receive(reader)
    finally:
        writer.close()
    kind, told = ("no", answer["refused"]) if "refused" in answer else ("yes", answer["run"])
    proof = prove(secret, kind, ours, theirs, node, work, str(told))
    proven = hmac.compare_digest(str(answer.get("proof")).encode(), proof.encode())
    if kind == "no":
        raise RequestError(
            one_line(told) if proven else f"node 0 at {master}:{port} refuses this node: {one_line(told)}"
        )
    if not proven:
        raise ValueError(_UNPROVEN)
    if not _RUN.fullmatch(str(told)):
        raise ValueError("its answer is no run's id")
    return str(told)


def _listen(master: str, port: int, say: Callable[[str], None]) -> socket.socket:
    """Listen at the address by which the others reach this node; at all addresses if it is none of this machine's."""
    try:
        found = socket.getaddrinfo(master, port, type=socket.SOCK_STREAM)
    except OSError:
        found = []
    for family, _, _, _, address in found:
        try:
            return socket.create_server(address, family=family)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise _in_use(port) from None
    say(f"--master {master} is no address of this machine: node 0 listens at all of its addresses")
    try:
        return socket.create_server(("", port))
    except OSError:
        raise _in_use(port) from None


def _in_use(port: int) -> RequestError:
    return RequestError(f"port {port} is in use: does another run wait for its nodes on this machine?")


def _names(nodes: set[int]) -> str:
    numbers = sorted(nodes)
    return f"node{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"
