"""Small images for podman on the hosts of `.ci/hosts`: what runs in them is this machine's Python with its torch.

An image holds nothing but links and empty folders, and podman is set up on the hosts to show every container `/usr` and
the Python that runs the tests. So it is brought in a moment, and its numbers are those of target local.
"""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

from tests.support import ssh_hosts

TORCH = f"{sys.prefix}/bin:/usr/bin"
"""A PATH on which `python3` has torch."""
NO_TORCH = "/usr/bin"
SETTINGS = {"CONTAINERS_STORAGE_CONF": "storage.conf", "CONTAINERS_CONF": "containers.conf"}
"""Variables that name the files of podman's settings."""


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
    return {name: str(folder / file) for name, file in SETTINGS.items()}


def show_this_machine(name: str) -> None:
    """Let every container on a host see the Python that runs the tests, read only."""
    places = {"/usr", sys.prefix, sys.base_prefix}
    outer = [path for path in places if not any(path != other and Path(path).is_relative_to(other) for other in places)]
    volumes = json.dumps([f"{path}:{path}:ro" for path in sorted(outer)])
    path = ssh_hosts.own(name) / "containers.conf"
    text = re.sub(r"volumes = .*\n", "", path.read_text("utf-8"))  # another checkout's, which another Python ran
    path.write_text(text.replace("[containers]\n", f"[containers]\nvolumes = {volumes}\n"), "utf-8")


def make(name: str, path: str = TORCH, *, host: str = "") -> str:
    """Make an image here, or on a host; its id."""
    said = podman(host, "import", "--quiet", f"--change=ENV PATH={path}", "-", name, given=_archive())
    return f"sha256:{said.strip().rpartition(':')[2]}"


def podman(host: str, *words: str, given: bytes = b"") -> str:
    """Run podman on a host, with its settings there, or here; what it prints."""
    if host:
        settings = [f"{name}={ssh_hosts.OWN}/{file}" for name, file in SETTINGS.items()]
        return ssh_hosts.inside(host, "env", *settings, "podman", *words, given=given)
    return subprocess.run(["podman", *words], input=given, capture_output=True, check=True).stdout.decode()


def containers() -> list[str]:
    """Every container on the hosts, also one that has ended and was not removed."""
    return [line for host in ssh_hosts.NAMES for line in podman(host, "ps", "--all", "--format={{.Names}}").split()]


def remove_all() -> None:
    """Remove every image of the hosts, and every container."""
    for host in ssh_hosts.NAMES:
        podman(host, "rmi", "--all", "--force")


def ids(host: str) -> list[str]:
    """The ids of a host's images."""
    return sorted(set(podman(host, "images", "--all", "--no-trunc", "--format={{.ID}}").split()))


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
