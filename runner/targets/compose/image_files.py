"""Files of an image, read without starting a container of it."""

from __future__ import annotations

import io
import os
import tarfile
from contextlib import suppress
from typing import TYPE_CHECKING

from runner.core.errors import RequestError
from runner.core.text import one_line
from runner.targets.compose.containers import made
from trainkit.files import open_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from docker import DockerClient

LARGEST_BYTES = 100 * 2**20
"""How much is read of a folder."""
MOST_BYTES = 2**30
"""How much of an image is compared."""
_CHUNK = 2**20


def read_files(client: DockerClient, image: str, root: str, places: list[str]) -> dict[str, bytes]:
    """Read regular files of an image.

    Args:
        client: the engine.
        image: its name or id.
        root: a folder of the image.
        places: files and folders below it; one that is not there is left out.

    Returns the bytes of every file by its path from the root.
    """
    from docker.errors import APIError  # noqa: PLC0415

    found: dict[str, bytes] = {}
    with made(client, image, ["/nothing"], network_mode="none") as container:
        for place in places:
            with suppress(APIError):
                stream, _ = container.get_archive(f"{root}/{place}")
                above = place.rpartition("/")[0]
                archived = _unpack(_bounded(stream, image), image)
                found |= {f"{above}/{name}".lstrip("/"): data for name, data in archived.items()}
    return found


def changed_file(client: DockerClient, image: str, folder: str, root: Path, left_out: list[str]) -> str | None:
    """Find a file of an image that is another one in the checkout.

    Args:
        client: the engine.
        image: its name or id.
        folder: where it holds the project.
        root: the project's folder.
        left_out: files and folders at the top of the project that are not compared.

    Returns its path from the root, fit for a line; None if there is none. A file that only one of the two has does not
    count: a build makes files, and leaves others out.
    """
    from docker.errors import NotFound  # noqa: PLC0415

    with made(client, image, ["/nothing"], network_mode="none") as container:
        try:
            with _Stream(container.get_archive(folder)[0]) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
                changed = _first_changed(tar, folder, image, root, left_out)
        except NotFound:
            changed = f"{folder} (it has none)"
        except tarfile.TarError as error:
            raise RequestError(one_line(f"the files of image {image} cannot be read: {error}")) from None
    return changed


def _first_changed(tar: tarfile.TarFile, folder: str, image: str, root: Path, left_out: list[str]) -> str | None:
    left = MOST_BYTES
    for member in tar:
        path = member.name.partition("/")[2]
        if not member.isfile() or path.partition("/")[0] in left_out:
            continue
        left -= member.size
        if left < 0:
            raise RequestError(
                f"{folder} of image {image} has more than {MOST_BYTES >> 30} GiB: name data in .dockerignore"
            )
        if _is_another(tar, member, root, path):
            return one_line(path, 200)
    return None


def _is_another(tar: tarfile.TarFile, member: tarfile.TarInfo, root: Path, path: str) -> bool:
    """Whether the checkout has a file of this path with other bytes."""
    try:
        here = open_file(root / path, below=root)
    except (OSError, ValueError):
        return False
    with here:
        if os.fstat(here.fileno()).st_size != member.size:
            return True
        held = tar.extractfile(member)
        while held and (chunk := held.read(_CHUNK)):
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


def _unpack(archive: bytes, image: str) -> dict[str, bytes]:
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            files = [(member, tar.extractfile(member)) for member in tar if member.isfile()]
            return {member.name: file.read() for member, file in files if file}
    except tarfile.TarError as error:
        raise RequestError(one_line(f"the files of image {image} cannot be read: {error}")) from None


def _bounded(stream: Iterator[bytes], image: str) -> bytes:
    blocks, size = [], 0
    for block in stream:
        blocks.append(block)
        size += len(block)
        if size > LARGEST_BYTES:
            raise RequestError(
                f"the programs of image {image} have more than {LARGEST_BYTES >> 20} MiB: it is not an image of the kit"
            )
    return b"".join(blocks)
