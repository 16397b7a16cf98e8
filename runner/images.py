"""The image that containers run: built where it is missing or is not this checkout."""

from __future__ import annotations

import hashlib
import os
import subprocess
from typing import TYPE_CHECKING, Any

from runner import engine
from runner.baseimages import read_lock
from runner.composefile import BASES, IMAGES, STAGES, WORKSPACE
from runner.environment import hash_sources, read_sources
from runner.errors import RequestError

if TYPE_CHECKING:
    from pathlib import Path

    from docker import DockerClient
    from docker.models.images import Image

    from runner.console import Screen


def ready(client: DockerClient, root: Path, device: str, screen: Screen) -> dict[str, Any]:
    """Find the image of a device, or the one that KIT_IMAGE names, and describe it; build what is missing.

    What an image holds is read from its files, not from its labels: an image is taken only if its programs and its
    lock file are this checkout's. One that was named is never built.
    """
    named = os.environ.get("KIT_IMAGE")
    name = named or IMAGES[device]
    image = _get(client, name)
    if image is not None:
        engine.check_architecture(client, image.attrs, name)
    stale = "is not there" if image is None else _differs(client, image, root)
    if stale and named:
        way = f"docker pull {named}" if image is None else "build it anew, or leave KIT_IMAGE out"
        msg = f"the image {named} {stale}: {way}"
        raise RequestError(msg)
    if stale:
        screen.note(f"the image {name} {stale}: building it")
        _build(root, device, name)
        image = _get(client, name)
        if image is None:
            msg = f"docker build ended well and left no image {name}: is DOCKER_HOST another engine's?"
            raise RequestError(msg)
    assert image is not None  # noqa: S101 - it was found or built
    return {**_describe(client, image, _base(root, device)), "name": name}


def _build(root: Path, device: str, name: str) -> None:
    """Build with the engine's own builder; its progress goes to the screen."""
    bases = read_lock(root)
    words = ["docker", "build", "--target", STAGES[device], "--tag", name]
    for arg in (BASES[device], "TORCH_CPU"):
        if value := os.environ.get(arg) or bases.get(arg):
            words += ["--build-arg", f"{arg}={value}"]
    done = subprocess.run([*words, "."], cwd=root, env={**os.environ, "DOCKER_BUILDKIT": "1"}, stdout=2, check=False)
    if done.returncode:
        msg = f"the image {name} cannot be built: its own words stand above; {' '.join(words)} . says them again"
        raise RequestError(msg)


def _base(root: Path, device: str) -> str:
    name = BASES[device]
    return os.environ.get(name) or read_lock(root)[name]


def _get(client: DockerClient, name: str) -> Image | None:
    from docker.errors import ImageNotFound, NullResource  # noqa: PLC0415 - imported on use

    try:
        return client.images.get(name)
    except (ImageNotFound, NullResource):
        return None


def _differs(client: DockerClient, image: Image, root: Path) -> str | None:
    """Say how an image differs from the checkout, if it does."""
    files = engine.read_files(client, str(image.id), f"{WORKSPACE}/experiments")
    programs = {path: data for path, data in files.items() if path.endswith(".py")}
    if hash_sources(programs) != hash_sources(read_sources(root)):
        return "holds other programs than experiments/ here"
    lock = engine.read_files(client, str(image.id), f"{WORKSPACE}/requirements.lock").get("requirements.lock", b"")
    if hashlib.sha256(lock).digest() != hashlib.sha256((root / "requirements.lock").read_bytes()).digest():
        return "was built from another requirements.lock"
    return None


def _describe(client: DockerClient, image: Image, base_name: str) -> dict[str, Any]:
    """Name the image by what no one can move: its id, and a registry's digest where one holds it."""
    digests = image.attrs.get("RepoDigests") or []
    facts: dict[str, Any] = {"id": image.id, "digest": digests[0].partition("@")[2] if digests else None}
    base = _get(client, base_name)
    layers = image.attrs["RootFS"]["Layers"]
    if base is not None and layers[: len(base.attrs["RootFS"]["Layers"])] == base.attrs["RootFS"]["Layers"]:
        held = base.attrs.get("RepoDigests") or []
        facts["base"] = {"name": base_name, "id": base.id, "digest": held[0].partition("@")[2] if held else None}
    else:
        locked = base_name.partition("@")[2] or None
        facts["base"] = {"name": base_name, "id": None, "digest": locked}
    return facts
