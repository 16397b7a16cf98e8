"""What the sockets of ranks show: connections without an answer, and addresses to which no other node comes."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from runner.core.text import listed, one_line
from runner.targets.node_view import NodeView

_LONGEST = 100


def of_connections(views: Sequence[NodeView]) -> Iterator[str]:
    """Say which ranks wait for an answer, and which listen where only their own machine comes."""
    machines = {view.seen.host for view in views if view.seen}
    for view in views:
        for rank in view.seen.ranks if view.seen else []:
            name = f"rank {rank.rank} (node {view.node})"
            if rank.connecting:
                far = listed(one_line(address, _LONGEST) for address in rank.connecting)
                yield f"{name} gets no answer from {far}: a firewall drops it, or the interface is the wrong one"
            own = [address for address in rank.listening if is_loopback(address.rpartition(":")[0])]
            if len(machines) > 1 and own and len(own) == len(rank.listening):
                yield (
                    f"{name} listens at {one_line(own[0], _LONGEST)}, where no other node comes: "
                    "set GLOO_SOCKET_IFNAME to the interface that reaches the others (runner doctor names it)"
                )


def is_loopback(address: str) -> bool:
    """Whether an address is one at which only the own machine answers."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
