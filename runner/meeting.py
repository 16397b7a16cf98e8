"""Nodes that were started by hand agree on one run before any of them trains.

Node 0 listens; every other node tells it its number and what it is about to do, and is told the run's id. So a node
that never comes is named, and nodes that would do different things are refused, where torchrun would only wait.
"""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING, Any

from runner.errors import RequestError, RunError, one_line
from runner.targets.torchrun import MASTER_PORT, RENDEZVOUS_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

PORT = MASTER_PORT + 1
SAY_SECONDS = 10.0
_REPLY_SECONDS = 5.0
_LONGEST = 4096


def host(run: str, work: str, nodes: int, say: Callable[[str], None], seconds: float = RENDEZVOUS_SECONDS) -> None:
    """Wait, as node 0, for all others.

    Args:
        run: the run's id, which they are told.
        work: a hash of what is run; whoever brings another one is refused.
        nodes: how many nodes there are, this one included.
        say: told now and then who is missing.
        seconds: how long to wait.

    Raises RunError naming the nodes that did not come.
    """
    missing = set(range(1, nodes))
    deadline = time.monotonic() + seconds
    said = time.monotonic()
    with socket.create_server(("", PORT), reuse_port=False) as server:
        server.settimeout(1.0)
        while missing:
            if time.monotonic() > deadline:
                msg = f"{_names(missing)} did not come within {seconds:g} s: started? on one network with node 0?"
                raise RunError(msg)
            if time.monotonic() - said > SAY_SECONDS:
                said = time.monotonic()
                say(f"waiting for {_names(missing)}")
            try:
                connection, _ = server.accept()
            except TimeoutError:
                continue
            with connection:
                missing.discard(_answer(connection, run, work, missing, say))


def join(master: str, node: int, work: str, say: Callable[[str], None], seconds: float = RENDEZVOUS_SECONDS) -> str:
    """Go, as another node, to node 0 at `master`; return the run's id.

    Raises RunError if it does not answer, RequestError if it refuses.
    """
    deadline = time.monotonic() + seconds
    said = time.monotonic()
    while True:
        try:
            with socket.create_connection((master, PORT), timeout=_REPLY_SECONDS) as connection:
                reply = _ask(connection, {"node": node, "work": work})
            if "refused" in reply:
                raise RequestError(one_line(reply["refused"]))
            return str(reply["run"])
        except (OSError, ValueError, KeyError) as error:
            why = one_line(error)
        if time.monotonic() > deadline:
            msg = f"node 0 did not answer at {master}:{PORT} within {seconds:g} s: {why}"
            raise RunError(msg)
        if time.monotonic() - said > SAY_SECONDS:
            said = time.monotonic()
            say(f"waiting for node 0 at {master}:{PORT}: {why}")
        time.sleep(0.2)


def _answer(connection: socket.socket, run: str, work: str, missing: set[int], say: Callable[[str], None]) -> int:
    """Answer one caller; return its number, or -1 for one that is refused or makes no sense."""
    connection.settimeout(_REPLY_SECONDS)
    try:
        asked = json.loads(connection.makefile("rb").readline(_LONGEST))
        number = asked["node"] if isinstance(asked, dict) else None
        if number not in missing:
            refusal = f"node 0 waits for {_names(missing)}, not for a node {number}"
        elif asked.get("work") != work:
            refusal = f"node {number} has another experiment, args, layout or programs than node 0"
        else:
            connection.sendall(json.dumps({"run": run}).encode() + b"\n")
            return int(number)
        say(refusal)
        connection.sendall(json.dumps({"refused": refusal}).encode() + b"\n")
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return -1


def _ask(connection: socket.socket, question: dict[str, Any]) -> dict[str, Any]:
    connection.sendall(json.dumps(question).encode() + b"\n")
    reply = json.loads(connection.makefile("rb").readline(_LONGEST))
    if not isinstance(reply, dict):
        msg = "an answer that makes no sense"
        raise ValueError(msg)  # noqa: TRY004 - for the caller it is the value that is wrong
    return reply


def _names(nodes: set[int]) -> str:
    numbers = sorted(nodes)
    return f"node{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"
