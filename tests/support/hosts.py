"""Make two hosts on one machine: network namespaces with addresses, names and firewalls. Needs root."""

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.launches import until
from tests.support.projects import ROOT, Ended, complete

RUNNER = [sys.executable, "-m", "runner"]


def missing() -> str | None:
    """Return why hosts cannot be made here; None if they can."""
    if os.geteuid() or not all(map(shutil.which, ("ip", "iptables", "unshare"))):
        return "hosts of their own need root, ip, iptables and unshare"
    name = f"kit-{uuid.uuid4().hex[:8]}"
    done = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if done.returncode == 0:
        subprocess.run(["ip", "netns", "del", name], check=False)
    return "network namespaces cannot be made here" if done.returncode else None


@dataclass
class Host:
    """One host; its commands run in its namespace, with its host name and /etc/hosts."""

    name: str
    namespace: str
    address: str
    folder: Path

    def names(self, lines: dict[str, str]) -> None:
        """Write names and their addresses to the host's /etc/hosts."""
        text = "".join(f"{address} {name}\n" for name, address in lines.items())
        Path("/etc/netns", self.namespace, "hosts").write_text(f"127.0.0.1 localhost\n{text}")

    def command(self, *words: str) -> list[str]:
        named = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', self.name]
        return ["ip", "netns", "exec", self.namespace, *named, *words]

    def doctor(self, *words: str, **env: str) -> Ended:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **env}
        return complete(self.command(*RUNNER, "doctor", *words), self.folder, environment)

    def drop(self, *words: str) -> None:
        """Make the host's firewall drop incoming packets."""
        rule = ["iptables", "-A", "INPUT", "-i", "eth0", *words, "-j", "DROP"]
        subprocess.run(["ip", "netns", "exec", self.namespace, *rule], check=True)


@contextmanager
def two_hosts(folder: Path) -> Iterator[tuple[Host, Host]]:
    """Make two hosts that are linked by eth0 and know each other's names."""
    mark = uuid.uuid4().hex[:6]
    hosts = tuple(Host(f"node{n}", f"kit-{mark}-{n}", f"10.201.7.{n + 1}", folder) for n in (0, 1))
    with ExitStack() as stack:
        for host in hosts:
            _ip("netns", "add", host.namespace)
            stack.callback(_ip, "netns", "del", host.namespace)
            own = Path("/etc/netns", host.namespace)
            own.mkdir(parents=True)
            stack.callback(shutil.rmtree, own)
        first, second = (["name", "eth0", "netns", host.namespace] for host in hosts)
        _ip("link", "add", *first, "type", "veth", "peer", *second)
        for host in hosts:
            _ip("-n", host.namespace, "addr", "add", f"{host.address}/24", "dev", "eth0")
            for link in ("eth0", "lo"):
                _ip("-n", host.namespace, "link", "set", link, "up")
            host.names({peer.name: peer.address for peer in hosts})
        for host in hosts:  # the kernel reports a new carrier once a second
            until(lambda host=host: b"state UP" in _ip("-n", host.namespace, "link", "show", "eth0"))
        yield hosts[0], hosts[1]


def _ip(*words: str) -> bytes:
    return subprocess.run(["ip", *words], check=True, capture_output=True).stdout
