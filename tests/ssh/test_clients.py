"""Set-ups of users and hosts that must not disturb a run: shared connections, ssh configurations, shells, Pythons."""

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from runner.targets.ssh.openssh import OpenSsh
from tests.support import ssh_hosts
from tests.support.launches import ended, run_once, starting, until
from tests.support.processes import lives
from tests.support.projects import Project

pytestmark = [pytest.mark.hosts, pytest.mark.xdist_group("ssh hosts")]
NO_NETWORK = ("--with", "network=192.168.7.0/24")
ASKED = "host h1: it has no address in network"
"""The refusal of a host that has answered."""


def master_of(host: str, config: str) -> int:
    """Return the pid of the process with the shared connection to a host."""
    command = OpenSsh(config).command(host, [])
    asked = [*command[: command.index("-T")], "-O", "check", host]
    said = subprocess.run(asked, capture_output=True, text=True, check=True)
    return int(re.findall(r"pid=(\d+)", said.stdout + said.stderr)[0])


def require_a_run_as_ever(project: Project, *words: str) -> dict[str, Any]:
    """Run a short cell on both hosts, without losses, and return its record."""
    quick = ("odd-slow", "--layout", "2x1", "--set", "seconds=1", "--device", "cpu")
    done, record = run_once(project, *quick, "--on", "ssh", *words)
    assert (done.code, record["status"]) == (0, "completed"), done.snapshot
    assert record["events"]["seen"] == record["events"]["expected"]
    return record


@pytest.fixture
def fresh(tmp_path: Path) -> list[str]:
    """Return the options that name the hosts, with a configuration without shared connections."""
    config = tmp_path / "config"
    config.write_text(f"Include {ssh_hosts.CONFIG}\n")
    return ["--with", "hosts=h0,h1", "--with", f"config={config}"]


def test_a_shared_connection_whose_process_hangs_is_made_again(refused: Callable[..., str], fresh: list[str]) -> None:
    config = fresh[-1].partition("=")[2]
    assert ASKED in refused(*fresh, *NO_NETWORK)
    master = master_of("h1", config)
    os.kill(master, signal.SIGSTOP)
    try:
        assert ASKED in refused(*fresh, *NO_NETWORK)
        assert master_of("h1", config) != master
    finally:
        os.kill(master, signal.SIGCONT)


def test_a_run_that_gives_up_the_shared_connection_takes_it_from_no_other(on_hosts: Project, fresh: list[str]) -> None:
    config = fresh[-1].partition("=")[2]
    with starting(on_hosts, "--on", "ssh", *fresh) as start:
        process, run = start("odd-slow", "--layout", "2x1", "--set", "seconds=8")
        until(ssh_hosts.has_printed(run, epochs=0), 60)
        before = master_of("h1", config)
        OpenSsh(config).forget("h1")
        require_a_run_as_ever(on_hosts, *fresh)
        assert master_of("h1", config) != before
        code, stderr = ended(process)
    assert (code, on_hosts.record(run)["status"]) == (0, "completed"), stderr
    assert "connection" not in stderr
    until(lambda: not lives(before), 30)


CONFIGURATION = """
Host *
  RequestTTY force
  LogLevel DEBUG1
  VisualHostKey yes
  PermitLocalCommand yes
  LocalCommand echo local
  RemoteCommand echo remote
  ControlMaster auto
  ControlPath ~/.ssh/%C
  ControlPersist 1h
  LocalForward 10.77.0.1:9922 localhost:22
  ExitOnForwardFailure yes
"""


@contextmanager
def login_shell(host: str, shell: Path) -> Iterator[None]:
    """Give root another shell on a host."""
    lines = Path("/etc/passwd").read_text("utf-8").splitlines()
    changed = [f"{line.rpartition(':')[0]}:{shell}" if line.startswith("root:") else line for line in lines]
    (ssh_hosts.own(host) / "passwd").write_text("\n".join(changed) + "\n", "utf-8")
    ssh_hosts.inside(host, "mount", "--bind", f"{ssh_hosts.OWN}/passwd", "/etc/passwd")
    try:
        yield
    finally:
        ssh_hosts.inside(host, "umount", "/etc/passwd")


NOISY = """#!/bin/sh
echo 'welcome {"answer": 1}'; echo "a notice of the system" >&2
exec /bin/sh "$@"
"""


SITE = """
import sys
sys.stdout.write('hello {"answer": 1}')
sys.stdout.flush()
print("a warning", file=sys.stderr)
"""


@pytest.mark.parametrize("name", ["tcsh", "noisy"])
def test_a_run_is_as_ever_whatever_configuration_shell_and_python_say(
    on_hosts: Project, tmp_path: Path, name: str
) -> None:
    """The user's ssh configuration has every disturbing option; the login shell and Python of host h1 print lines."""
    config = tmp_path / "config"
    config.write_text(f"{CONFIGURATION}  Include {ssh_hosts.CONFIG}\n")
    own = ssh_hosts.own("h1")
    shell = Path(shutil.which("tcsh") or pytest.fail(".ci/hosts installs tcsh"))
    if name == "noisy":
        (own / "noisy").write_text(NOISY)
        (own / "noisy").chmod(0o755)
        shell = Path(ssh_hosts.OWN, "noisy")
    line = f'PYTHONPATH={ssh_hosts.OWN}/site exec {{python}} "$@"'
    python = ssh_hosts.with_python(line)
    (own / "site").mkdir(exist_ok=True)
    (own / "site" / "sitecustomize.py").write_text(SITE)
    try:
        with login_shell("h1", shell):
            record = require_a_run_as_ever(on_hosts, "--with", "hosts=h0,h1", "--with", f"config={config}", *python)
    finally:
        shutil.rmtree(own / "site")
    (agent,) = on_hosts.results.glob(f"*/{record['launch']['id']}/raw/node1-agent.log")
    assert "a warning" in agent.read_text("utf-8")
