"""`containers/image.lock`: the images that ours are built on, each with its digest once it has been read.

A digest is only ever read from an engine that holds the image.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from runner.core.errors import RequestError
from runner.core.output import write_outputs
from runner.core.text import one_line
from runner.targets.compose.engine import find_image
from trainkit import files

if TYPE_CHECKING:
    from docker import DockerClient

LOCK = "containers/image.lock"
LARGEST_BYTES = 10_000
NAMES = ("BASE_IMAGE", "CPU_BASE_IMAGE")
_LINE = re.compile(r"([A-Z_]+)=(\S+)")
_IMAGE = re.compile(r"[a-z0-9][\w.:/-]*(@sha256:[0-9a-f]{64})?")


def read_lock(root: Path) -> dict[str, str]:
    """Return the locked image of each build argument; RequestError with file:line for anything else in the file."""
    path = root / LOCK
    try:
        lines = files.read_file(path, LARGEST_BYTES).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise RequestError(f"{path}: cannot be read: {why}: write {' and '.join(NAMES)} there, NAME=image") from None
    images: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line.strip())
        if not found or found[1] not in NAMES or not _IMAGE.fullmatch(found[2]) or found[1] in images:
            raise RequestError(
                f"{path}:{number}: '{one_line(line, 100)}': write {' and '.join(NAMES)} once: NAME=image[@sha256:...]"
            )
        images[found[1]] = found[2]
    if missing := [name for name in NAMES if name not in images]:
        raise RequestError(f"{path}: {missing[0]} is missing")
    return images


def pin(root: Path, client: DockerClient, named: dict[str, str]) -> dict[str, str]:
    """Write the digests of the images that the engine holds into the lock; return what is locked now.

    `named` has other images than the locked ones, by build argument. An image that the engine does not hold keeps its
    line; RequestError if it holds none of them.
    """
    locked = {**read_lock(root), **named}
    held = {name: digest for name, image in locked.items() if (digest := _digest(client, image))}
    if missing := [image for name, image in named.items() if name not in held]:
        raise RequestError(f"the engine does not hold {missing[0]} with a registry's digest: docker pull {missing[0]}")
    if not held:
        images = " or ".join(f"docker pull {_tagged(image)}" for image in locked.values())
        raise RequestError(f"the engine holds none of the base images with a registry's digest: {images}")
    locked = {name: f"{_tagged(image)}@{held[name]}" if name in held else image for name, image in locked.items()}
    path = root / LOCK
    lines = [line for line in path.read_text("utf-8").splitlines() if line.startswith("#")]
    text = "\n".join([*lines, *(f"{name}={image}" for name, image in locked.items())]) + "\n"
    write_outputs({path: text.encode()}, below=root)
    return locked


def _tagged(image: str) -> str:
    return image.partition("@")[0]


def _digest(client: DockerClient, image: str) -> str | None:
    """Return the digest under which a registry holds the image; the engine knows it of images pulled or pushed."""
    held = find_image(client, _tagged(image))
    repository = re.sub(r":[\w.-]+$", "", _tagged(image))
    digests = (held.attrs.get("RepoDigests") or []) if held else []
    return next((digest.partition("@")[2] for digest in digests if digest.partition("@")[0] == repository), None)
