"""Find the network interface that reaches an address, and make Gloo and NCCL use it.

Sources: NCCL's user guide (`NCCL_SOCKET_IFNAME` takes prefixes, or exact names after `=`) and Gloo
(`GLOO_SOCKET_IFNAME` takes exact names).
"""

import ipaddress
import socket
from contextlib import suppress
from typing import NamedTuple

GLOO, NCCL = "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"


class Route(NamedTuple):
    """The interface by which packets to an address leave this machine."""

    interface: str
    """For example `eth0`."""
    local: str
    """This machine's address on the interface."""


def is_loopback(address: str) -> bool:
    """Return whether packets to an address never leave the machine."""
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def interfaces() -> dict[str, list[str]]:
    """Return the addresses of each network interface that is up."""
    import psutil

    states = psutil.net_if_stats()
    return {
        name: [own.address.partition("%")[0] for own in held if own.family in (socket.AF_INET, socket.AF_INET6)]
        for name, held in psutil.net_if_addrs().items()
        if name in states and states[name].isup
    }


def route_to(address: str, port: int = 9) -> Route | None:
    """Return the route to an address from the routing table, or None if there is no route. Nothing is sent."""
    local = ""
    with suppress(OSError, UnicodeError):
        family, _, _, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            if probe.connect_ex(place):  # connecting a UDP socket only looks up the route
                return None
            local = str(probe.getsockname()[0]).partition("%")[0]
    name = next((name for name, held in interfaces().items() if local in held), None) if local else None
    return Route(name, local) if name else None


def variables_for(interface: str) -> dict[str, str]:
    """Return the environment variables that make Gloo and NCCL use exactly this interface."""
    return {GLOO: interface, NCCL: f"={interface}"}
