"""Faults of the network between two hosts are found, each with its cause; two healthy hosts have none."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.core.errors import RequestError
from runner.tools.doctor.peers import parse
from tests.support.hosts import Host, missing, two_hosts
from tests.support.projects import ROOT, Ended


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    if why := missing():
        pytest.skip(why)
    with two_hosts(tmp_path) as both:
        yield both


def findings(done: Ended, *states: str) -> dict[str, dict[str, Any]]:
    """The findings by check, by default those that are not ok."""
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)["findings"]
    return {finding["check"]: finding for finding in found if finding["state"] in (states or ("warning", "wrong"))}


def examined(host: Host, peer: str = "node1", **env: str) -> Ended:
    return host.doctor("--peers", peer, "--device", "cpu", "--json", **env)


def test_two_healthy_hosts_have_no_finding(hosts: tuple[Host, Host]) -> None:
    done = examined(hosts[0])
    assert (done.code, findings(done)) == (0, {}), done.stdout
    seen = findings(done, "ok")["route"]["seen"]
    assert "GLOO_SOCKET_IFNAME=eth0 NCCL_SOCKET_IFNAME==eth0" in seen
    assert re.search("10.201.7.2 .* eth0 from 10.201.7.1", seen)


TCP = ("-p", "tcp", "--dport")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("drops", "peer", "check", "seen"),
    [
        pytest.param((*TCP, "29501:65535"), "node1", "port", "random ports", id="a firewall drops all ports but one"),
        pytest.param((*TCP, "29500"), "node1", "port", "filtered.*other ports answer", id="a firewall drops the port"),
        pytest.param((), "node1", "port", "drops everything, or the host is down", id="a firewall drops everything"),
        pytest.param(None, "node7", "name", "does not resolve.*/etc/hosts", id="a name does not resolve"),
        pytest.param(None, "10.201.7.77", "port", "no host answers|the host is down", id="a node is missing"),
        pytest.param(None, "192.168.99.1", "route", "no route to 192.168.99.1", id="no route"),
    ],
)
def test_a_fault_on_the_way_to_a_peer_has_one_finding_with_its_cause_and_remedy(
    hosts: tuple[Host, Host], drops: tuple[str, ...] | None, peer: str, check: str, seen: str
) -> None:
    if drops is not None:
        hosts[1].drop(*drops)
    done = examined(hosts[0], peer)
    (found,) = findings(done).values()
    assert (done.code, found["check"], found["where"]) == (1, check, peer)
    assert re.search(seen, f"{found['seen']}; {found['mend']}"), found


@pytest.mark.parametrize(
    ("node0", "node1", "check", "mend"),
    [
        ("10.201.7.1", "127.0.1.1", "name", "/etc/hosts"),
        ("127.0.1.1", "10.201.7.2", "own-name", "export GLOO_SOCKET_IFNAME=eth0"),
    ],
)
def test_a_name_that_leads_to_the_loopback_interface(
    hosts: tuple[Host, Host], node0: str, node1: str, check: str, mend: str
) -> None:
    hosts[0].names({"node0": node0, "node1": node1})
    done = examined(hosts[0])
    (found,) = findings(done).values()
    assert (done.code, found["check"], found["where"]) == (1, check, "node0" if check == "own-name" else "node1")
    assert "127.0.1.1" in found["seen"]
    assert mend in found["mend"]
    if check == "own-name":
        assert examined(hosts[0], GLOO_SOCKET_IFNAME="eth0", NCCL_SOCKET_IFNAME="=eth0").code == 0


@pytest.mark.slow
def test_another_program_at_the_port_of_this_machine(hosts: tuple[Host, Host]) -> None:
    listener = "import socket, time; s = socket.create_server(('', 29500)); print(flush=True); time.sleep(600)"
    with subprocess.Popen(hosts[0].command(sys.executable, "-c", listener), stdout=subprocess.PIPE) as program:
        assert program.stdout
        program.stdout.readline()
        done, other = examined(hosts[0]), examined(hosts[1], "node0")
        program.kill()
    assert (done.code, findings(done)["own-port"]["state"]) == (1, "wrong")
    # The exit code depends on the whole machine, which other tests load at the same time.
    assert "is open" in findings(other, "ok")["port"]["seen"]


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
    assert "02" in states  # SYN_SENT: the host was seen connecting
    assert "0A" not in states  # LISTEN


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
def test_an_invalid_peer_is_refused_in_one_short_line(words: str) -> None:
    with pytest.raises(RequestError) as refused:
        parse(words, 29500)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 300
