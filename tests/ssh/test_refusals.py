"""Whatever is wrong with a host is one line with its name, before anything is started anywhere."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import ssh_hosts
from tests.support.patience import within

pytestmark = [pytest.mark.hosts, pytest.mark.xdist_group("ssh hosts")]
WORDS = ssh_hosts.WORDS


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("HostName 10.77.0.77", "it does not answer: is it on, and does a firewall let ssh through?"),
        ("Port 2222", "nothing answers at ssh's port there: start sshd"),
        ("UserKnownHostsFile /dev/null", "its host key is not known here, or has changed: ssh h1 once by hand"),
    ],
)
def test_a_host_that_is_not_there_or_is_another_one(
    refused: Callable[..., str], tmp_path: Path, place: str, says: str
) -> None:
    config = tmp_path / "ssh config"
    config.write_text(f"Host h1\n  {place}\nHost *\n  Include {ssh_hosts.CONFIG}\n")
    assert f"host h1: {says}" in refused("--with", "hosts=h0,h1", "--with", f"config={config}")


def test_a_host_that_asks_for_a_password(refused: Callable[..., str], tmp_path: Path) -> None:
    other = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True)
    config = tmp_path / "ssh config"
    known = Path(ssh_hosts.CONFIG).parent / "known_hosts"
    host = f"Host h1\n  HostName 10.77.0.12\n  IdentityFile {other}\n  IdentitiesOnly yes\n"
    config.write_text(f"{host}  UserKnownHostsFile {known}\n")
    said = refused("--with", "hosts=h1", "--with", f"config={config}", layout="1x1")
    assert said.startswith("error: host h1: it refuses this user's keys, or asks for a password: ssh-copy-id h1")


def test_a_python_that_a_host_lacks(refused: Callable[..., str]) -> None:
    said = refused(*WORDS, "--with", 'python=/opt/it\'s "no" $(touch /tmp/x)/python')
    assert "host h0: there is no Python at /opt/it's" in said
    assert "host h1: there is no Python" in said
    assert not Path("/tmp/x").exists()  # what a shell would have made


@pytest.mark.parametrize(
    ("does", "says"),
    [
        ("exec yes", "its shell prints without end"),
        ("exec yes >&2", "its shell prints without end"),
        ("exec sleep 60", "ssh reaches it, but"),
    ],
)
def test_a_python_that_cannot_be_used_is_refused_without_a_hang(
    refused: Callable[..., str], does: str, says: str
) -> None:
    python = ssh_hosts.with_python("h1", does)
    with within(60):
        assert f"host h1: {says}" in refused(*WORDS, *python)


def test_a_disk_that_is_full(refused: Callable[..., str]) -> None:
    ssh_hosts.inside("h1", "mkdir", "-p", f"{ssh_hosts.OWN}/small")
    ssh_hosts.inside("h1", "mount", "-t", "tmpfs", "-o", "size=1m", "none", f"{ssh_hosts.OWN}/small")
    (ssh_hosts.own("h0") / "small").mkdir(exist_ok=True)
    try:
        said = refused(*WORDS, "--with", f"folder={ssh_hosts.OWN}/small")
    finally:
        ssh_hosts.inside("h1", "umount", f"{ssh_hosts.OWN}/small")
    assert said.startswith(f"error: host h1: 1 MB free in {ssh_hosts.OWN}/small, the run needs ")
    assert said.endswith("make room, or name another folder with --with folder=PATH")


def test_a_port_that_is_in_use(refused: Callable[..., str]) -> None:
    assert "port 22 of 10.77.0.11 cannot be used" in refused(*WORDS, "--with", "port=22")


@pytest.mark.parametrize("missing", ["rsync", "ssh"])
def test_this_machine_has_no_ssh_or_rsync(
    refused: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    if missing == "ssh":
        (tmp_path / "rsync").symlink_to("/usr/bin/rsync")
    monkeypatch.setenv("PATH", f"{tmp_path}:{Path(sys.executable).parent}")
    assert f"there is no {missing} here: install" in refused(*WORDS)
