"""Two doctors ask each other: `runner doctor --listen ADDRESS` answers with its versions and its clock.

    asker -> {"doctor": 1, "sent": t1}        other -> {"doctor": 1, "received": t2, "sent": t3, "facts": {...}}

One line of JSON each way. The clocks differ by ((t2 - t1) + (t3 - t4)) / 2, give or take half of the time that the
exchange took on the way (RFC 5905, section 8). Nothing of what the other side sends is believed to be of any kind.
"""

import errno
import json
import socket
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

from runner.core import clock
from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.core.values import number

LONGEST_BYTES = 8_192
SECONDS = 3.0
"""The whole exchange with one asker; whoever is slower is dropped."""
MOST_ASKERS = 16
_TOLD = ("host", "python", "torch", "cuda", "nccl", "driver")


def listen(address: str, port: int) -> socket.socket:
    """Listen at one address of this machine; RequestError if it is none, or if the port is in use."""
    try:
        family, _, _, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(place[:2] if family == socket.AF_INET else place, family=family)
    except (OSError, UnicodeError) as error:
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            msg = f"--listen {address}: port {port} is in use: `ss -ltnp 'sport = :{port}'` shows by what"
        else:
            msg = one_line(f"--listen {address}: {getattr(error, 'strerror', error)}: name an address of this machine")
        raise RequestError(msg) from None


def serve(listening: socket.socket, facts: dict[str, Any], now: Callable[[], float] = clock.now) -> None:
    """Tell every asker the versions in the facts of this machine, until the socket is closed; `now` is in seconds."""
    told = {name: facts.get(name) for name in _TOLD}
    places = threading.BoundedSemaphore(MOST_ASKERS)
    while True:
        try:
            asker, _ = listening.accept()
        except OSError:
            return
        if places.acquire(blocking=False):
            threading.Thread(target=_answer, args=(asker, told, now, places), daemon=True).start()
        else:
            asker.close()


def _answer(
    asker: socket.socket, told: dict[str, Any], now: Callable[[], float], places: threading.BoundedSemaphore
) -> None:
    with closing(asker), suppress(OSError, ValueError, RecursionError):
        try:
            asked = _receive(asker, clock.monotonic() + SECONDS)
            received = now()
            if asked.get("doctor") == 1:
                answer = {"doctor": 1, "received": received, "facts": told, "sent": now()}
                asker.sendall(json.dumps(answer).encode() + b"\n")
        finally:
            places.release()


def ask(connected: socket.socket) -> dict[str, Any] | None:
    """Ask over a connection; return `offset_seconds`, `within_seconds` and `facts`, None if no doctor answers."""
    try:
        started = clock.monotonic()
        sent = clock.now()
        connected.settimeout(SECONDS)
        connected.sendall(json.dumps({"doctor": 1, "sent": sent}).encode() + b"\n")
        answer = _receive(connected, started + SECONDS)
        took = clock.monotonic() - started
        theirs = [number(answer.get(name)) for name in ("received", "sent")]
        facts = answer.get("facts")
    except (OSError, ValueError, RecursionError):
        return None
    if answer.get("doctor") != 1 or theirs[0] is None or theirs[1] is None or not isinstance(facts, dict):
        return None
    offset = ((theirs[0] - sent) + (theirs[1] - (sent + took))) / 2
    way = max(0.0, took - (theirs[1] - theirs[0]))
    known = {name: one_line(facts[name], 100) for name in _TOLD if isinstance(facts.get(name), str)}
    return {"offset_seconds": offset, "within_seconds": way / 2, "facts": known}


def _receive(connected: socket.socket, deadline: float) -> dict[str, Any]:
    data = b""
    while not data.endswith(b"\n"):
        left = deadline - clock.monotonic()
        if left <= 0 or len(data) > LONGEST_BYTES:
            raise ValueError("too slow or too long")
        connected.settimeout(left)
        chunk = connected.recv(LONGEST_BYTES)
        if not chunk:
            break
        data += chunk
    answer = json.loads(data)
    return answer if isinstance(answer, dict) else {}
