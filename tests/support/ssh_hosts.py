"""The hosts that `.ci/hosts` makes: their ssh configuration, what runs on them, and faults that are put into them."""

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
"""Hosts whose network fails or that start again, while other tests run on NAMES."""


def words(names: tuple[str, str]) -> tuple[str, ...]:
    """What names these hosts on the command line."""
    return "--with", f"hosts={','.join(names)}", "--with", f"config={CONFIG}"


WORDS = words(NAMES)
OWN = "/run/kit-host"
"""A folder that each host sees as its own: `own(name)` here."""


def missing() -> str | None:
    """Say why there are no hosts."""
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
    """The folder of one host."""
    return Path(CONFIG).parent / name


def own(name: str) -> Path:
    """What the host sees as OWN."""
    return state(name) / "own"


def with_python(name: str, line: str, others: str = "", *, file: str = "python") -> tuple[str, str]:
    """Give all hosts a Python at one path, and one of them another; return the words that name it.

    A line of shell says what it does, in which {python} is that of the tests.
    """
    for host in NAMES:
        path, does = own(host) / file, line if host == name else others or 'exec {python} "$@"'
        path.write_text(f"#!/bin/sh\n{does}\n".replace("{python}", sys.executable))
        path.chmod(0o755)
    return "--with", f"python={OWN}/{file}"


def processes_of(run: str, node: str = "") -> list[Seen]:
    """Every process of a run on any host, or of one node: torchrun, its workers, and what they have started."""

    def wanted(environ: dict[str, str]) -> bool:
        of, _, at = environ.get("KIT_RUN_ID", "").rpartition("/")
        return of == run and node in ("", at)

    return seen(wanted)


def has_printed(run: Path, epochs: int = 3) -> Callable[[], bool]:
    """Return what tells whether each of two ranks of a run has a file of its output, with so many epochs in it."""

    def look() -> bool:
        files = list((run / "raw").rglob("*stdout*"))
        return len(files) == 2 and all(path.read_bytes().count(b"epoch_stop") >= epochs for path in files)

    return look


def folders_of(run: str) -> list[Path]:
    """What is left of a run on the disks of the hosts."""
    return [path for name in (*NAMES, *DISTURBED) for path in (state(name) / "cache" / "runs").glob(f"{run}*")]


def inside(name: str, *words: str, given: bytes = b"") -> str:
    """Run a command on a host without ssh, as somebody at its keyboard would; its output."""
    holder = int((state(name) / "pid").read_text())
    (first,) = psutil.Process(holder).children()
    entered = ["nsenter", "--target", str(first.pid), "--mount", "--net", "--uts", "--pid", "--", *words]
    return subprocess.run(entered, check=True, capture_output=True, input=given).stdout.decode()


@contextmanager
def dropped(name: str, *words: str) -> Iterator[None]:
    """Let a host's firewall drop what comes in, for example `-p tcp --dport 22`."""
    rule = ["INPUT", "-i", "eth0", *words, "-j", "DROP"]
    inside(name, "iptables", "-I", *rule)
    try:
        yield
    finally:
        inside(name, "iptables", "-D", *rule)


def restart(name: str) -> None:
    """End all that runs on a host at once, as if its power had failed, and start it again."""
    holder = psutil.Process(int((state(name) / "pid").read_text()))
    holder.kill()
    script = Path(__file__).parents[2] / ".ci" / "hosts"
    done = subprocess.run([script, "up", str(len(NAMES) + len(DISTURBED))], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == CONFIG
