"""Find the image of a run, and build it if it is missing or differs from this checkout.

Images are compared by their files, not by labels, and without starting a container.
"""

from __future__ import annotations

import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

from runner.core import git
from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.definitions.plan import Run
from runner.definitions.settings import DOCKERFILE, Settings
from runner.records.provenance import describe_repository
from runner.targets.compose import engine
from runner.targets.compose.containers import made
from runner.targets.compose.service import BASES, REVISION, STAGES, WORKSPACE, image_of
from trainkit.sources import LIBRARY, read_folders

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.images import Image

LOCK = "requirements/runtime.lock"
BASE_LOCK = "containers/image.lock"
"""File that names the base images, with digests if pinned."""
MOUNTED = ("data", "results")
"""Project folders that containers always mount."""


def ready(client: DockerClient, run: Run, say: Callable[[str], None], chosen: str = "") -> dict[str, Any]:
    """Return a description of a run's image. Builds the image first if necessary.

    A `chosen` image is not compared with this checkout, because runs report the hash of their programs. The project's
    own image is built if it is missing or differs. Raises RequestError if a `chosen` image is missing, or if the image
    of KIT_IMAGE is missing or differs.
    """
    named = chosen or os.environ.get("KIT_IMAGE")
    name = named or image_of(run.experiment.settings.image, run.device)
    image = engine.find_image(client, name)
    if image is not None:
        engine.check_architecture(client, image.attrs, name)
    stale = "is missing" if image is None else "" if chosen else _differs(client, image, run)
    if stale and named:
        way = f"docker pull {named}" if image is None else "rebuild it, or unset KIT_IMAGE"
        raise RequestError(f"the image {named} {stale}: {way}")
    if stale:
        say(f"the image {name} {stale}: building it")
        _build(run.experiment.settings, run.device, name)
        image = engine.find_image(client, name)
    if image is None:
        raise RequestError(f"docker build succeeded and left no image {name}: does DOCKER_HOST name another engine?")
    return {"id": image.id, "digest": _digest(image), **_base(client, image, run), "name": name}


def _build(settings: Settings, device: str, name: str) -> None:
    root = settings.root
    values = {**(read_lock(root) if (root / BASE_LOCK).exists() else {}), **_revision(root)}
    file = [] if settings.dockerfile == DOCKERFILE else ["--file", settings.dockerfile]
    words = ["docker", "build", *file, "--target", STAGES[device], "--tag", name]
    for arg in (BASES[device], "TORCH_CPU", REVISION, "CREATED"):
        if value := os.environ.get(arg) or values.get(arg):
            words += ["--build-arg", f"{arg}={value}"]
    done = subprocess.run([*words, "."], cwd=root, env={**os.environ, "DOCKER_BUILDKIT": "1"}, stdout=2, check=False)
    if done.returncode:
        raise RequestError(f"the image {name} cannot be built (see above); to repeat: {' '.join(words)} .")


def _revision(root: Path) -> dict[str, str]:
    code, _ = describe_repository(root)
    repository = git.find(root) if code.get("dirty") is not None else None
    if repository is None:
        return {}
    created = repository.ask("log", "-1", "--no-show-signature", "--format=%cI", code["commit"]).decode().strip()
    return {REVISION: code["commit"] + "-dirty" * code["dirty"], "CREATED": created}


def _differs(client: DockerClient, image: Image, run: Run) -> str:
    from docker.errors import NotFound

    with made(client, str(image.id), ["/nothing"], network_mode="none") as container, TemporaryFile() as copy:
        try:
            for chunk in container.get_archive(WORKSPACE)[0]:  # read to the end, or the engine keeps the container
                copy.write(chunk)
        except NotFound:
            return f"has no {WORKSPACE}"
        copy.seek(0)
        return _compare(copy, run)


def _compare(copy: IO[bytes], run: Run) -> str:
    """Return how an image's copy of the project differs from the checkout, or "" if it does not.

    In the kit's own image, compare the lock file and the family's programs. In other images, compare each file that
    the image and the checkout both have, except in mounted folders.
    """
    root, program = run.experiment.root, run.cell.program
    with tarfile.open(fileobj=copy) as tar:
        held = {member.name.partition("/")[2]: member for member in tar if member.isfile()}

        def content(path: str) -> bytes:
            file = tar.extractfile(held[path]) if path in held else None
            return file.read() if file else b""

        if (root / LIBRARY.name / "__init__.py").is_file():
            families = tuple(f"{folder}/" for folder in program.folders)
            programs = {path: content(path) for path in held if path.endswith(".py") and path.startswith(families)}
            if programs != read_folders(root, program.folders):
                return "holds other programs than this checkout"
            return f"was built from another {LOCK}" if content(LOCK) != (root / LOCK).read_bytes() else ""
        for path, member in held.items():
            here = root / path
            if path.partition("/")[0] in (*program.places, *MOUNTED) or not here.is_file():
                continue
            if here.stat().st_size != member.size or here.read_bytes() != content(path):
                return f"holds another {one_line(path, 200)} than this checkout"
    return ""


def _base(client: DockerClient, image: Image, run: Run) -> dict[str, Any]:
    variable, root = BASES[run.device], run.experiment.root
    name = os.environ.get(variable) or (read_lock(root)[variable] if (root / BASE_LOCK).exists() else "")
    if not name:
        return {}
    base = engine.find_image(client, name)
    below = base.attrs["RootFS"]["Layers"] if base else []
    if base and image.attrs["RootFS"]["Layers"][: len(below)] == below:
        return {"base": {"name": name, "id": base.id, "digest": _digest(base)}}
    return {"base": {"name": name, "id": None, "digest": name.partition("@")[2] or None}}


def _digest(image: Image) -> str | None:
    digests = image.attrs.get("RepoDigests") or []
    return digests[0].partition("@")[2] if digests else None


def read_lock(root: Path) -> dict[str, str]:
    """Return the base image of each build argument, from the lock file. Raises RequestError if an image is missing."""
    path = root / BASE_LOCK
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(one_line(f"{path}: cannot be read: {error}")) from None
    images = dict(line.strip().split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    if missing := [name for name in BASES.values() if not images.get(name)]:
        raise RequestError(f"{path}: {missing[0]} is missing: write NAME=image for {' and '.join(BASES.values())}")
    return images
