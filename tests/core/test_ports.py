"""Ports for a rendezvous are free, and outgoing connections do not use them."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from torch.distributed import TCPStore

from runner.core import ports

LINUX = Path("/proc/sys/net/ipv4/ip_local_port_range")


@pytest.mark.parametrize("address", ["", "127.0.0.1", "::1"])
def test_the_port_can_be_listened_on_and_is_none_of_those_that_the_system_gives_away(address: str) -> None:
    number = ports.free_port(address)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    socket.create_server((address, number), family=family).close()
    first, last = map(int, LINUX.read_text().split())
    assert not first <= number <= last


@pytest.mark.parametrize("take", [lambda: socket.create_server(("", ports.free_port())), ports.held_port])
def test_a_port_on_which_somebody_listens_or_will_listen_is_not_chosen(
    take: Callable[[], socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    with take() as taken:
        number = taken.getsockname()[1]
        monkeypatch.setattr(ports, "_CHOICE", range(number, number + 1))
        assert ports.free_port() != number


def test_a_rendezvous_can_listen_on_a_port_that_is_held_for_it() -> None:
    with ports.held_port() as held:
        TCPStore("127.0.0.1", held.getsockname()[1], 1, is_master=True).set("word", "here")
