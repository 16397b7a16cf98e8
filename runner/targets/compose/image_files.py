"""Files of an image, read without starting a container of it."""

from __future__ import annotations

import io
import tarfile
from contextlib import suppress
from typing import TYPE_CHECKING

from runner.core.errors import RequestError
from runner.core.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docker import DockerClient

LARGEST_BYTES = 100 * 2**20
"""How much is read of a folder."""


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
    container = client.containers.create(image, ["/nothing"], network_mode="none")
    try:
        for place in places:
            with suppress(APIError):
                stream, _ = container.get_archive(f"{root}/{place}")
                above = place.rpartition("/")[0]
                archived = _unpack(_bounded(stream, image), image)
                found |= {f"{above}/{name}".lstrip("/"): data for name, data in archived.items()}
    finally:
        container.remove(force=True)
    return found


def _unpack(archive: bytes, image: str) -> dict[str, bytes]:
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            files = [(member, tar.extractfile(member)) for member in tar if member.isfile()]
            return {member.name: file.read() for member, file in files if file}
    except tarfile.TarError as error:
        msg = one_line(f"the files of image {image} cannot be read: {error}")
        raise RequestError(msg) from None


def _bounded(stream: Iterator[bytes], image: str) -> bytes:
    blocks, size = [], 0
    for block in stream:
        blocks.append(block)
        size += len(block)
        if size > LARGEST_BYTES:
            msg = (
                f"the programs of image {image} have more than {LARGEST_BYTES >> 20} MiB: it is not an image of the kit"
            )
            raise RequestError(msg)
    return b"".join(blocks)
