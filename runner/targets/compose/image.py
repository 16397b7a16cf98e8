"""The image that containers run: built if it is missing or differs from this checkout.

What an image holds is read from its files, without starting a container of it.
"""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from runner.core import git
from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.definitions.plan import Run
from runner.definitions.settings import DOCKERFILE, Settings
from runner.records.provenance import describe_repository
from runner.targets.compose import engine
from runner.targets.compose.base_images import LOCK as BASE_LOCK
from runner.targets.compose.base_images import read_lock
from runner.targets.compose.containers import made
from runner.targets.compose.service import BASES, REVISION, STAGES, WORKSPACE, image_of
from trainkit.files import is_file, open_file, read_file
from trainkit.sources import LIBRARY, read_folders

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.images import Image

LOCK = "requirements/runtime.lock"
LARGEST_LOCK = 10_000_000
NOT_COMPARED = ("data", "results")
"""Folders of a project that its containers see as they are here."""
MOST_BYTES = 2**30
"""How much of an image is read."""
_CHUNK = 2**20


def ready(client: DockerClient, run: Run, say: Callable[[str], None]) -> dict[str, Any]:
    """Find the image of a run's device, or the one that KIT_IMAGE names, and describe it; build what is missing.

    What an image holds is read from its files, not from its labels: an image is used only if what it holds of the
    project is as it is in this checkout. One that was named is never built.
    """
    named = os.environ.get("KIT_IMAGE")
    name = named or image_of(run.experiment.settings.image, run.device)
    image = engine.find_image(client, name)
    if image is not None:
        engine.check_architecture(client, image.attrs, name)
    stale = "is not there" if image is None else _differs(client, image, run)
    if stale and named:
        way = f"docker pull {named}" if image is None else "build it again, or leave KIT_IMAGE out"
        raise RequestError(f"the image {named} {stale}: {way}")
    if stale:
        say(f"the image {name} {stale}: building it")
        _build(run.experiment.settings, run.device, name)
        image = engine.find_image(client, name)
        if image is None:
            raise RequestError(
                f"docker build succeeded and left no image {name}: does DOCKER_HOST name another engine?"
            )
    assert image is not None  # noqa: S101 - it was found or built
    return _describe(client, image, run, name)


def named(client: DockerClient, name: str, run: Run) -> dict[str, Any]:
    """Describe an image that is used as it is, whatever programs it holds: each run reports the hash of its own."""
    image = engine.find_image(client, name)
    if image is None:
        raise RequestError(f"the image {name} is not there: docker pull {name}")
    engine.check_architecture(client, image.attrs, name)
    return _describe(client, image, run, name)


def _build(settings: Settings, device: str, name: str) -> None:
    """Build with the engine's own builder; its progress goes to the screen."""
    root = settings.root
    values = {**(read_lock(root) if os.path.lexists(root / BASE_LOCK) else {}), **_revision(root)}
    file = [] if settings.dockerfile == DOCKERFILE else ["--file", settings.dockerfile]
    words = ["docker", "build", *file, "--target", STAGES[device], "--tag", name]
    for arg in (BASES[device], "TORCH_CPU", REVISION, "CREATED"):
        if value := os.environ.get(arg) or values.get(arg):
            words += ["--build-arg", f"{arg}={value}"]
    done = subprocess.run([*words, "."], cwd=root, env={**os.environ, "DOCKER_BUILDKIT": "1"}, stdout=2, check=False)
    if done.returncode:
        raise RequestError(
            f"the image {name} cannot be built: its messages are above; {' '.join(words)} . repeats them"
        )


def _revision(root: Path) -> dict[str, str]:
    """Return the commit that the project is at, and when it was made: two builds of a commit give the same image."""
    code, _ = describe_repository(root)
    repository = git.find(root) if code.get("dirty") is not None else None
    if repository is None:
        return {}
    created = repository.ask("log", "-1", "--no-show-signature", "--format=%cI", code["commit"]).decode().strip()
    return {REVISION: code["commit"] + "-dirty" * code["dirty"], "CREATED": created}


def _differs(client: DockerClient, image: Image, run: Run) -> str | None:
    """Return how an image differs from the checkout, if it does.

    Of the kit's own image the programs of one family count, and the lock file. Of any other one nobody knows what a
    program reads: every file that it holds counts, the list of its packages among them, but for what is mounted. A
    file that only one of the two has does not count there: a build makes files, and leaves others out.
    """
    from docker.errors import NotFound  # imported on use

    root, program = run.experiment.root, run.cell.program
    if is_file(root / LIBRARY.name / "__init__.py"):
        families = tuple(f"{folder}/" for folder in program.folders)
        held: dict[str, bytes] = {}
        with suppress(NotFound), _files(client, str(image.id)) as files:
            for path, _, file in files:
                if path == LOCK or (path.endswith(".py") and path.startswith(families)):
                    held[path] = file.read()
        lock = held.pop(LOCK, b"")
        if held != read_folders(root, program.folders):
            return "holds other programs than this checkout"
        return f"was built from another {LOCK}" if lock != read_file(root / LOCK, LARGEST_LOCK) else None
    try:
        with _files(client, str(image.id), (*program.places, *NOT_COMPARED)) as files:
            changed = next((path for path, size, file in files if _is_another(root / path, root, size, file)), "")
    except NotFound:
        changed = f"{WORKSPACE} (it has none)"
    return f"holds another {one_line(changed, 200)} than this checkout" if changed else None


def _describe(client: DockerClient, image: Image, run: Run, name: str) -> dict[str, Any]:
    """Identify the image by what nobody can move: its id, and a registry's digest where one holds it; and its base."""
    facts: dict[str, Any] = {"id": image.id, "digest": _digest(image)}
    variable, root = BASES[run.device], run.experiment.root
    base_name = os.environ.get(variable)
    if not base_name and os.path.lexists(root / BASE_LOCK):  # a project may build no image
        base_name = read_lock(root)[variable]
    if base_name:
        base = engine.find_image(client, base_name)
        below = base.attrs["RootFS"]["Layers"] if base is not None else []
        if base is not None and image.attrs["RootFS"]["Layers"][: len(below)] == below:
            facts["base"] = {"name": base_name, "id": base.id, "digest": _digest(base)}
        else:
            facts["base"] = {"name": base_name, "id": None, "digest": base_name.partition("@")[2] or None}
    return {**facts, "name": name}


def _digest(image: Image) -> str | None:
    digests = image.attrs.get("RepoDigests") or []
    return digests[0].partition("@")[2] if digests else None


@contextmanager
def _files(
    client: DockerClient, image: str, left_out: Sequence[str] = ()
) -> Iterator[Iterator[tuple[str, int, IO[bytes]]]]:
    """Open what an image holds of the project: path, size and content of each file, to be read in this order.

    What is left out stands at the top of the project. Raises docker's NotFound if the image has no such folder.
    """

    def regular(tar: tarfile.TarFile) -> Iterator[tuple[str, int, IO[bytes]]]:
        left = MOST_BYTES
        for member in tar:
            path = member.name.partition("/")[2]
            if member.isfile() and path.partition("/")[0] not in left_out:
                left -= member.size
                if left < 0:
                    raise RequestError(
                        f"{WORKSPACE} of image {image} has more than {MOST_BYTES >> 30} GiB: name data in .dockerignore"
                    )
                if file := tar.extractfile(member):
                    yield path, member.size, file

    with made(client, image, ["/nothing"], network_mode="none") as container:
        try:
            # Only the stream may hold the chunks: closing it ends the connection.
            with _Stream(container.get_archive(WORKSPACE)[0]) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
                yield regular(tar)
        except tarfile.TarError as error:
            raise RequestError(one_line(f"the files of image {image} cannot be read: {error}")) from None


def _is_another(path: Path, root: Path, size: int, held: IO[bytes]) -> bool:
    """Return whether the checkout has a file of this path with other bytes."""
    try:
        here = open_file(path, below=root)
    except (OSError, ValueError):
        return False
    with here:
        if os.fstat(here.fileno()).st_size != size:
            return True
        while chunk := held.read(_CHUNK):
            if chunk != here.read(len(chunk)):
                return True
    return False


class _Stream(io.RawIOBase):
    """What comes in chunks, as a file that is read once."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, b""

    def close(self) -> None:
        """Let go of the connection: the engine removes no container whose files it still sends."""
        self._chunks = iter(())
        super().close()

    def read(self, size: int = -1) -> bytes:
        """Return as many bytes, or less at the end."""
        parts = [self._rest]
        length = len(self._rest)
        while length < size and (chunk := next(self._chunks, b"")):
            parts.append(chunk)
            length += len(chunk)
        data = b"".join(parts)
        self._rest = data[size:]
        return data[:size]
