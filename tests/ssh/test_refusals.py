"""Any problem of a host is one line with its name, before the run is started on any host."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import ssh_hosts

pytestmark = [pytest.mark.hosts, pytest.mark.xdist_group("ssh hosts")]
KNOWN = f"UserKnownHostsFile {Path(ssh_hosts.CONFIG).parent}/known_hosts"


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("HostName 10.77.0.77", "check its name"),
        ("Port 2222", "runs sshd"),
        ("UserKnownHostsFile /dev/null", "ssh h1 once"),
        (f"HostName 10.77.0.12\n  IdentityFile {{key}}\n  IdentitiesOnly yes\n  {KNOWN}", "ssh-copy-id h1"),
    ],
)
def test_a_host_that_is_not_there_or_is_another_one_or_asks_for_a_password(
    refused: Callable[..., str], tmp_path: Path, place: str, says: str
) -> None:
    key, config = tmp_path / "key", tmp_path / "ssh config"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    others = "" if "{key}" in place else f"Host *\n  Include {ssh_hosts.CONFIG}\n"
    config.write_text(f"Host h1\n  {place.format(key=key)}\n{others}")
    said = refused("--with", "hosts=h1", "--with", f"config={config}", layout="1x1")
    assert said.startswith("error: host h1: ")
    assert says in said
