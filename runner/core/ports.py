"""Choose the port of a rendezvous; also sent to hosts, so it needs nothing but Python."""

import contextlib
import secrets
import socket

_CHOICE = range(12_000, 20_000)
_TRIES = 100


def free_port(address: str = "") -> int:
    """Return a port of TCP that is free now on an address of this machine, or on all of them.

    It lies below the ports that systems give to outgoing connections (Linux: from 32768, ip(7)), where any process
    of the machine could take it in the moment before the rendezvous listens on it.
    """
    with held_port(address) as holder:
        return int(holder.getsockname()[1])


def held_port(address: str = "") -> socket.socket:
    """Return a socket that is bound to such a port: until it is closed, no other call chooses that port.

    A rendezvous listens on it all the same, as its own socket sets SO_REUSEADDR too (torch: c10d/socket.cpp). So two
    runs that begin at the same time get two ports.
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
