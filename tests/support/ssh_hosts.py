"""Use the hosts of `.ci/hosts`: their ssh configuration, processes, folders and faults."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.support.processes import Seen, seen

CONFIG = os.environ.get("KIT_HOSTS", "")
"""The configuration that `.ci/hosts up` prints."""
NAMES = ("h0", "h1")
DISTURBED = ("h2", "h3")
"""Hosts whose network is cut while other tests use NAMES."""


def words(names: tuple[str, str]) -> tuple[str, ...]:
    """Return the options that name these hosts."""
    return "--with", f"hosts={','.join(names)}", "--with", f"config={CONFIG}"


WORDS = words(NAMES)
OWN = "/run/kit-host"
"""The path of `own(name)` on a host."""


def missing() -> str | None:
    """Return why there are no hosts; None if all answer."""
    if not CONFIG:
        return "KIT_HOSTS names no ssh configuration, as .ci/hosts prints it"
    for name in (*NAMES, *DISTURBED):
        done = subprocess.run(
            ["ssh", "-F", CONFIG, "-o", "BatchMode=yes", name, "true"], capture_output=True, check=False
        )
        if done.returncode:
            return f"host {name} of {CONFIG} does not answer: .ci/hosts up"
    return None


def state(name: str) -> Path:
    """Return the state folder of a host."""
    return Path(CONFIG).parent / name


def own(name: str) -> Path:
    """Return the folder that is OWN on a host."""
    return state(name) / "own"


def with_python(line: str) -> tuple[str, str]:
    """Install a Python on all hosts, as a line of shell with {python} for the tests' Python; return its options."""
    for host in NAMES:
        path = own(host) / "python"
        path.write_text(f"#!/bin/sh\n{line}\n".replace("{python}", sys.executable))
        path.chmod(0o755)
    return "--with", f"python={OWN}/python"


def processes_of(run: str, node: str = "") -> list[Seen]:
    """Return all processes of a run on the hosts, or of one node of it."""

    def wanted(environ: dict[str, str]) -> bool:
        of, _, at = environ.get("KIT_RUN_ID", "").rpartition("/")
        return of == run and node in ("", at)

    return seen(wanted)


def has_printed(run: Path, epochs: int = 3) -> Callable[[], bool]:
    """Return a function that tells whether two ranks of a run have files with so many epochs."""

    def look() -> bool:
        files = list((run / "raw").rglob("*stdout*"))
        return len(files) == 2 and all(path.read_bytes().count(b"epoch_stop") >= epochs for path in files)

    return look


def folders_of(run: str) -> list[Path]:
    """Return the folders of a run on the disks of the hosts."""
    return [path for name in (*NAMES, *DISTURBED) for path in (state(name) / "cache" / "runs").glob(f"{run}*")]


def inside(name: str, *words: str, given: bytes = b"") -> str:
    """Run a command on a host without ssh, and return its output."""
    (first,) = psutil.Process(int((state(name) / "pid").read_text())).children()
    entered = ["nsenter", "--target", str(first.pid), "--mount", "--net", "--uts", "--pid", "--", *words]
    return subprocess.run(entered, check=True, capture_output=True, input=given).stdout.decode()


@contextmanager
def dropped(name: str, *words: str) -> Iterator[None]:
    """Make a host's firewall drop matching incoming packets, for example `-p tcp --dport 22`."""
    rule = ["INPUT", "-i", "eth0", *words, "-j", "DROP"]
    inside(name, "iptables", "-I", *rule)
    try:
        yield
    finally:
        inside(name, "iptables", "-D", *rule)
