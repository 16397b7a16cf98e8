"""Two doctors ask each other: `runner doctor --listen ADDRESS` answers with its versions and its clock.

    asker -> {"doctor": 1, "sent": t1}        other -> {"doctor": 1, "received": t2, "sent": t3, "facts": {...}}

One line of JSON each way. The clocks differ by ((t2 - t1) + (t3 - t4)) / 2, give or take half of the time that the
exchange took on the way (RFC 5905, section 8). What the other side sends is bounded, and decoded into a type.
"""

import errno
import socket
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any, Literal

import msgspec

from runner.core import clock
from runner.core.errors import RequestError
from runner.core.text import one_line

LONGEST_BYTES = 8_192
SECONDS = 3.0
"""The whole exchange with one asker; whoever is slower is dropped."""
_TOLD = ("host", "python", "torch", "cuda", "nccl", "driver")


class Question(msgspec.Struct):
    """What a doctor asks, and when by its clock, in seconds."""

    doctor: Literal[1]
    sent: float


class Answer(Question):
    """What another doctor answers: when it was asked and answered by its clock, and its versions."""

    received: float
    facts: dict[str, str | None]


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
    while True:
        try:
            asker, _ = listening.accept()
        except OSError:
            return
        threading.Thread(target=_answer, args=(asker, told, now), daemon=True).start()


def _answer(asker: socket.socket, told: dict[str, str | None], now: Callable[[], float]) -> None:
    with closing(asker), suppress(OSError, ValueError, msgspec.MsgspecError):
        msgspec.json.decode(_receive(asker, clock.monotonic() + SECONDS), type=Question)
        received = now()
        asker.sendall(msgspec.json.encode(Answer(1, now(), received, told)) + b"\n")


def ask(connected: socket.socket) -> dict[str, Any] | None:
    """Ask over a connection; return `offset_seconds`, `within_seconds` and `facts`, None if no doctor answers."""
    try:
        started = clock.monotonic()
        sent = clock.now()
        connected.settimeout(SECONDS)
        connected.sendall(msgspec.json.encode(Question(1, sent)) + b"\n")
        answer = msgspec.json.decode(_receive(connected, started + SECONDS), type=Answer)
        took = clock.monotonic() - started
    except (OSError, ValueError, msgspec.MsgspecError):
        return None
    offset = ((answer.received - sent) + (answer.sent - (sent + took))) / 2
    way = max(0.0, took - (answer.sent - answer.received))
    known = {name: one_line(answer.facts[name], 100) for name in _TOLD if answer.facts.get(name)}
    return {"offset_seconds": offset, "within_seconds": way / 2, "facts": known}


def _receive(connected: socket.socket, deadline: float) -> bytes:
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
    return data
