"""The image that containers run: built if it is missing or differs from this checkout."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

from runner.core.errors import RequestError
from runner.definitions.settings import DOCKERFILE
from runner.targets.compose import engine
from runner.targets.compose.base_images import LOCK as BASE_LOCK
from runner.targets.compose.base_images import read_lock
from runner.targets.compose.image_files import changed_file, read_files
from runner.targets.compose.service import BASES, STAGES, WORKSPACE, image_of
from trainkit.files import is_file, read_file
from trainkit.sources import LIBRARY, hash_sources, read_folders

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from docker import DockerClient
    from docker.models.images import Image

    from runner.definitions.settings import Settings

LOCK = "requirements.lock"
LARGEST_LOCK = 10_000_000
NOT_COMPARED = ("data", "results")
"""Folders of a project that its containers see as they are here."""


def ready(
    client: DockerClient,
    settings: Settings,
    folders: list[str],
    mounted: list[str],
    device: str,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Find the image of a device, or the one that KIT_IMAGE names, and describe it; build what is missing.

    What an image holds is read from its files, not from its labels: an image is used only if what it holds of the
    project is as it is in this checkout. One that was named is never built.

    Args:
        client: the engine.
        settings: the project's.
        folders: where a family's programs are, from the project's folder; they have to be the same in the image.
        mounted: what the containers see as it is here, whatever the image holds.
        device: `cpu` or `cuda`.
        say: takes a line to show.
    """
    named = os.environ.get("KIT_IMAGE")
    name, root = named or image_of(settings.image, device), settings.root
    image = _get(client, name)
    if image is not None:
        engine.check_architecture(client, image.attrs, name)
    stale = "is not there" if image is None else _differs(client, image, root, folders, mounted)
    if stale and named:
        way = f"docker pull {named}" if image is None else "build it again, or leave KIT_IMAGE out"
        raise RequestError(f"the image {named} {stale}: {way}")
    if stale:
        say(f"the image {name} {stale}: building it")
        _build(settings, device, name)
        image = _get(client, name)
        if image is None:
            raise RequestError(
                f"docker build succeeded and left no image {name}: does DOCKER_HOST name another engine?"
            )
    assert image is not None  # noqa: S101 - it was found or built
    return {**_describe(client, image, _base(root, device)), "name": name}


def named(client: DockerClient, name: str, root: Path, device: str) -> dict[str, Any]:
    """Describe an image that is used as it is, whatever programs it holds: each run reports the hash of its own."""
    image = _get(client, name)
    if image is None:
        raise RequestError(f"the image {name} is not there: docker pull {name}")
    engine.check_architecture(client, image.attrs, name)
    return {**_describe(client, image, _base(root, device)), "name": name}


def held(client: DockerClient, identity: str) -> bool:
    """Whether the engine holds an image of this id or name."""
    return _get(client, identity) is not None


def _build(settings: Settings, device: str, name: str) -> None:
    """Build with the engine's own builder; its progress goes to the screen."""
    root = settings.root
    bases = read_lock(root)
    file = [] if settings.dockerfile == DOCKERFILE else ["--file", settings.dockerfile]
    words = ["docker", "build", *file, "--target", STAGES[device], "--tag", name]
    for arg in (BASES[device], "TORCH_CPU"):
        if value := os.environ.get(arg) or bases.get(arg):
            words += ["--build-arg", f"{arg}={value}"]
    done = subprocess.run([*words, "."], cwd=root, env={**os.environ, "DOCKER_BUILDKIT": "1"}, stdout=2, check=False)
    if done.returncode:
        raise RequestError(
            f"the image {name} cannot be built: its messages are above; {' '.join(words)} . repeats them"
        )


def _base(root: Path, device: str) -> str | None:
    """Return the image that the device's is built on; None for a project that builds none."""
    name = BASES[device]
    return os.environ.get(name) or (read_lock(root)[name] if os.path.lexists(root / BASE_LOCK) else None)


def _get(client: DockerClient, name: str) -> Image | None:
    from docker.errors import ImageNotFound, NullResource  # noqa: PLC0415 - imported on use

    try:
        return client.images.get(name)
    except (ImageNotFound, NullResource):
        return None


def _differs(client: DockerClient, image: Image, root: Path, folders: list[str], mounted: list[str]) -> str | None:
    """Say how an image differs from the checkout, if it does.

    Of the kit's own image the programs of one family count, and the lock file. Of any other one nobody knows what a
    program reads: every file that it holds counts, the list of its packages among them, but for what is mounted.
    """
    if not is_file(root / LIBRARY.name / "__init__.py"):
        changed = changed_file(client, str(image.id), WORKSPACE, root, [*mounted, *NOT_COMPARED])
        return f"holds another {changed} than this checkout" if changed else None
    held = read_files(client, str(image.id), WORKSPACE, [*folders, LOCK])
    lock = held.pop(LOCK, b"")
    programs = {path: data for path, data in held.items() if path.endswith(".py")}
    if hash_sources(programs) != hash_sources(read_folders(root, folders)):
        return "holds other programs than this checkout"
    if lock != read_file(root / LOCK, LARGEST_LOCK):
        return f"was built from another {LOCK}"
    return None


def _describe(client: DockerClient, image: Image, base_name: str | None) -> dict[str, Any]:
    """Identify the image by what nobody can move: its id, and a registry's digest where one holds it."""
    digests = image.attrs.get("RepoDigests") or []
    facts: dict[str, Any] = {"id": image.id, "digest": digests[0].partition("@")[2] if digests else None}
    if base_name is None:
        return facts
    base = _get(client, base_name)
    layers = image.attrs["RootFS"]["Layers"]
    if base is not None and layers[: len(base.attrs["RootFS"]["Layers"])] == base.attrs["RootFS"]["Layers"]:
        held = base.attrs.get("RepoDigests") or []
        facts["base"] = {"name": base_name, "id": base.id, "digest": held[0].partition("@")[2] if held else None}
    else:
        locked = base_name.partition("@")[2] or None
        facts["base"] = {"name": base_name, "id": None, "digest": locked}
    return facts
