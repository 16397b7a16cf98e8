"""Small images for podman on the hosts of `.ci/hosts`: what runs in them is this machine's Python with its torch.

An image holds nothing but links and empty folders, and podman is set up on the hosts to show every container `/usr` and
the Python that runs the tests. So it is brought in a moment, and its numbers are those of target local.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support import ssh_hosts

if TYPE_CHECKING:
    from collections.abc import Iterator

TORCH = f"{sys.prefix}/bin:/usr/bin"
"""A PATH on which `python3` has torch."""
NO_TORCH = "/usr/bin"
HERE = ("CONTAINERS_STORAGE_CONF", "CONTAINERS_CONF")
"""Variables that name podman's settings, of this machine too."""


def missing() -> str | None:
    """Say why there are no containers in the hosts."""
    return None if shutil.which("podman") else "podman is not installed: .ci/hosts up installs it on Debian"


def set_up_here(folder: Path) -> dict[str, str]:
    """Give this machine an engine of its own in a folder; the variables that name it."""
    storage = f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/images"\nrunroot = "{folder}/run"\n'
    (folder / "storage.conf").write_text(storage, "utf-8")
    engine = (
        f'[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "none"\nlock_type = "file"\ntmp_dir = "{folder}/t"\n'
    )
    (folder / "containers.conf").write_text(engine, "utf-8")
    return {name: str(folder / file) for name, file in zip(HERE, ("storage.conf", "containers.conf"), strict=True)}


def show_this_machine(name: str) -> None:
    """Let every container on a host see the Python that runs the tests, read only."""
    places = {"/usr", sys.prefix, sys.base_prefix}
    outer = [one for one in places if not any(one != other and Path(one).is_relative_to(other) for other in places)]
    volumes = json.dumps([f"{one}:{one}:ro" for one in sorted(outer)])
    path = ssh_hosts.own(name) / "containers.conf"
    text = path.read_text("utf-8")
    if "volumes" not in text:
        path.write_text(text.replace("[containers]\n", f"[containers]\nvolumes = {volumes}\n"), "utf-8")


def make(name: str, path: str = TORCH, *, host: str = "") -> str:
    """Make an image here, or on a host; its id."""
    words = ["podman", "import", "--quiet", f"--change=ENV PATH={path}", "-", name]
    done = subprocess.run(on(host, *words), input=_archive(), capture_output=True, check=True)
    return f"sha256:{done.stdout.decode().strip().rpartition(':')[2]}"


def on(host: str, *words: str) -> list[str]:
    """Write the command that runs words on a host, or here."""
    return (
        ["ssh", "-F", ssh_hosts.CONFIG, "-o", "BatchMode=yes", host, " ".join(map(_quoted, words))]
        if host
        else [*words]
    )


def containers(names: tuple[str, ...] = ssh_hosts.NAMES) -> list[str]:
    """Every container on the hosts, also one that has ended and was not removed."""
    words = ["podman", "ps", "--all", "--format={{.Names}}"]
    return [line for name in names for line in _said(name, *words).splitlines()]


def remove_all(names: tuple[str, ...] = ssh_hosts.NAMES) -> None:
    """Remove every container and every image of the hosts."""
    for name in names:
        _said(name, "podman", "rm", "--all", "--force")
        _said(name, "podman", "rmi", "--all", "--force")


def ids(host: str) -> list[str]:
    """The ids of a host's images."""
    return sorted(set(_said(host, "podman", "images", "--all", "--no-trunc", "--format={{.ID}}").split()))


def _said(host: str, *words: str) -> str:
    return subprocess.run(on(host, *words), capture_output=True, text=True, check=True).stdout


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def _archive() -> bytes:
    """Write the archive of a system without files."""
    kept = io.BytesIO()
    with tarfile.open(fileobj=kept, mode="w") as tar:
        for member in _members():
            tar.addfile(member)
    return kept.getvalue()


def _members() -> Iterator[tarfile.TarInfo]:
    for name in ("usr", "etc", "tmp", "proc", "sys", "dev", "run", "var"):
        folder = tarfile.TarInfo(name)
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
        yield folder
    for name in ("bin", "lib", "lib64", "sbin"):
        if (target := os.path.realpath(f"/{name}").lstrip("/")) != name:
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            yield link
