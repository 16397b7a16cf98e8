"""Faults of the network between two hosts are found, each with its cause; two healthy hosts have none."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.core.errors import RequestError
from runner.tools.doctor.peers import parse
from tests.support.hosts import Host, missing, two_hosts
from tests.support.patience import patient
from tests.support.projects import ROOT, Ended

WITHIN_SECONDS = 15


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    if why := missing():
        pytest.skip(why)
    with two_hosts(tmp_path) as both:
        yield both


def findings(done: Ended, *states: str) -> dict[str, dict[str, Any]]:
    """The findings in some states, by check."""
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)["findings"]
    return {finding["check"]: finding for finding in found if finding["state"] in (states or ("wrong",))}


def examined(host: Host, peer: str = "node1", **env: str) -> Ended:
    started = time.monotonic()
    done = host.doctor("--peers", peer, "--device", "cpu", "--json", **env)
    assert time.monotonic() - started < patient(WITHIN_SECONDS)
    return done


def test_two_hosts_that_find_each_other_have_no_finding(hosts: tuple[Host, Host]) -> None:
    done = examined(hosts[0])
    assert done.code == 0, done.stdout
    assert findings(done, "warning", "wrong") == {}
    seen = findings(done, "ok")
    assert "GLOO_SOCKET_IFNAME=eth0 NCCL_SOCKET_IFNAME==eth0" in seen["route"]["seen"]
    assert "10.201.7.2 is reached by eth0 from 10.201.7.1" in seen["route"]["seen"]


@pytest.mark.slow
def test_a_firewall_that_lets_only_the_port_of_the_rendezvous_through(hosts: tuple[Host, Host]) -> None:
    hosts[1].drop("-p", "tcp", "--dport", "29501:65535")
    done = examined(hosts[0])
    assert done.code == 1
    assert "Gloo and NCCL connect at ports chosen at random" in findings(done)["port"]["seen"]


PORT = ("-p", "tcp", "--dport", "29500")
FAULTS = {
    "a firewall drops the port of the rendezvous": (PORT, "node1", "port", "is filtered.*other ports answer: a fire"),
    "a firewall drops everything": ((), "node1", "port", "a firewall drops everything, or the host is down"),
    "a name does not resolve": (None, "node7", "name", "the name does not resolve.*/etc/hosts"),
    "a node is missing": (None, "10.201.7.77", "port", "no host answers at 10.201.7.77|the host is down"),
    "there is no route to a peer": (None, "192.168.99.1", "route", "there is no way to 192.168.99.1"),
}
"""By its name in docs/failures.md: what the firewall of node1 drops, whom node0 asks for, and what it finds."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("drops", "peer", "check", "seen"),
    FAULTS.values(),
    ids=FAULTS,
)
def test_a_fault_on_the_way_to_a_peer_has_a_line_with_its_cause_and_what_mends_it(
    hosts: tuple[Host, Host], drops: tuple[str, ...] | None, peer: str, check: str, seen: str
) -> None:
    if drops is not None:
        hosts[1].drop(*drops)
    done = examined(hosts[0], peer)
    (found,) = findings(done, "warning", "wrong").values()
    assert (found["check"], found["where"]) == (check, peer)
    assert re.search(seen, f"{found['seen']}; {found['mend']}"), found
    assert done.code == 1


def test_a_peer_whose_name_leads_to_this_machine_itself(hosts: tuple[Host, Host]) -> None:
    hosts[0].names({"node0": "10.201.7.1", "node1": "127.0.1.1"})
    done = examined(hosts[0])
    assert done.code == 1
    (found,) = findings(done).values()
    assert (found["check"], found["where"]) == ("name", "node1")
    assert "each node would wait for itself" in found["seen"]


def test_an_own_name_that_leads_to_the_loopback_interface(hosts: tuple[Host, Host]) -> None:
    hosts[0].names({"node0": "127.0.1.1", "node1": "10.201.7.2"})
    done = examined(hosts[0])
    chosen = examined(hosts[0], GLOO_SOCKET_IFNAME="eth0", NCCL_SOCKET_IFNAME="=eth0")
    assert done.code == 1
    (found,) = findings(done).values()
    assert (found["check"], found["where"]) == ("own-name", "node0")
    assert "node0 resolves to 127.0.1.1" in found["seen"]
    assert "export GLOO_SOCKET_IFNAME=eth0" in found["mend"]
    assert chosen.code == 0, chosen.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variable", "value", "seen"),
    [
        ("GLOO_SOCKET_IFNAME", "lo", "chooses lo, and the peers are reached by eth0"),
        ("GLOO_SOCKET_IFNAME", "ib0", "chooses no interface"),
        ("NCCL_SOCKET_IFNAME", "^eth", "chooses lo, and the peers are reached by eth0"),
    ],
)
def test_a_wrong_interface_in_the_environment(hosts: tuple[Host, Host], variable: str, value: str, seen: str) -> None:
    done = examined(hosts[0], **{variable: value})
    assert done.code == 1
    assert seen in findings(done)["interface"]["seen"]
    assert variable in findings(done)["interface"]["mend"]


@pytest.mark.slow
def test_another_program_at_the_port_of_this_machine(hosts: tuple[Host, Host]) -> None:
    listener = "import socket, time; s = socket.create_server(('', 29500)); print(flush=True); time.sleep(600)"
    program = subprocess.Popen(hosts[0].command(sys.executable, "-c", listener), stdout=subprocess.PIPE)
    assert program.stdout
    program.stdout.readline()
    try:
        done = examined(hosts[0])
        other = examined(hosts[1], "node0")
    finally:
        program.kill()
        program.wait()
        program.stdout.close()
    assert done.code == 1
    assert "port 29500 of this machine is in use" in findings(done)["own-port"]["seen"]
    # Its exit code would tell of the whole machine, which other tests load at the same time.
    assert "is open" in findings(other, "ok", "warning", "wrong")["port"]["seen"]


@pytest.mark.slow
def test_a_doctor_listens_nowhere(hosts: tuple[Host, Host]) -> None:
    hosts[1].drop()  # so that the examination takes its whole time
    words = hosts[0].command(sys.executable, "-m", "runner", "doctor", "--peers", "node1")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(words, cwd=hosts[0].folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    states = set()
    while process.poll() is None:
        sockets = subprocess.run(hosts[0].command("cat", "/proc/self/net/tcp"), capture_output=True, check=True).stdout
        states |= {line.split()[3] for line in sockets.decode().splitlines()[1:]}
    process.communicate()
    assert process.returncode == 1
    assert "02" in states, "it was seen connecting (SYN_SENT)"
    assert "0A" not in states, "no socket of the host was seen listening (LISTEN)"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("a,b.example:1", [("a", 29500), ("b.example", 1)]),
        ("10.0.0.1 , 10.0.0.1", [("10.0.0.1", 29500)]),
        ("::1,[fe80::1%eth0]:7", [("::1", 29500), ("fe80::1%eth0", 7)]),
    ],
)
def test_peers_are_names_or_addresses_with_or_without_a_port(words: str, expected: list[tuple[str, int]]) -> None:
    assert parse(words, 29500) == expected


@pytest.mark.parametrize("words", ["a:0", "\x1b[2J", "a" * 300])
def test_what_is_no_host_is_refused_in_one_line(words: str) -> None:
    with pytest.raises(RequestError) as refused:
        parse(words, 29500)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 300
