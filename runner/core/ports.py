"""Choose a port for a rendezvous. This file is also sent to hosts, so it imports only the standard library."""

import contextlib
import secrets
import socket

_CHOICE = range(12_000, 20_000)
_TRIES = 100


def free_port(address: str = "") -> int:
    """Return a TCP port that is free on the given address of this machine, or by default on all addresses.

    The port lies below the range for outgoing connections (Linux: from 32768, ip(7)). In that range, another process
    could take the port before the rendezvous listens.
    """
    with held_port(address) as holder:
        return int(holder.getsockname()[1])


def held_port(address: str = "") -> socket.socket:
    """Return a socket that is bound to a free port. Until the socket is closed, no other call chooses this port.

    Runs that start at the same time thus get different ports. The rendezvous can listen on the port nevertheless, since
    the rendezvous sets SO_REUSEADDR too (torch: c10d/socket.cpp).
    """
    for _ in range(_TRIES):
        number = _CHOICE[secrets.randbelow(len(_CHOICE))]
        with contextlib.suppress(OSError):
            return _bound(address, number)
    return _bound(address, 0)


def _bound(address: str, number: int) -> socket.socket:
    server = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        server.bind((address, number))
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except OSError:
        server.close()
        raise
    return server
