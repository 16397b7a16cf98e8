"""Copy files out of untrusted folders and archives, within bounds.

Archive members never choose where they are written, links are not followed, and decompression bombs are refused.
"""

import bz2
import gzip
import lzma
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO

from trainkit.errors import Refusal, one_line, reason
from trainkit.files import open_file, read_file

MOST_MEMBERS = 100_000
MOST_BYTES = 4_000_000_000
"""Limit for the unpacked size of one archive."""
MOST_TIMES = 100
"""Limit for the ratio of unpacked to packed size, which is 2 for weights and 10 for text."""
SMALL = 1_000_000
"""Unpacked size that even the smallest archive may have."""
BLOCK = 1 << 20
ARCHIVES = (".tar.gz", ".tgz", ".zip", ".whl")
_BROKEN = (
    OSError,
    EOFError,
    RuntimeError,  # a zip member with a password
    ValueError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    tarfile.TarError,
)
_DECOMPRESSORS: dict[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ": lzma.LZMAFile,
}


class Budget:
    """Limits on the bytes and the members that an archive unpacks to. Exceeding a limit raises Refusal."""

    def __init__(self, place: str, size: int) -> None:
        self._place = place
        self._size = size
        self._left = min(MOST_BYTES, MOST_TIMES * size + SMALL)
        self._members = 0

    def take(self, count: int) -> None:
        """Count unpacked bytes."""
        self._left -= count
        if self._left < 0:
            raise Refusal(f"{self._place}: its {self._size:,} bytes unpack to far more than those of a data set")

    def member(self) -> None:
        """Count a member."""
        self._members += 1
        if self._members > MOST_MEMBERS:
            raise Refusal(f"{self._place}: more than {MOST_MEMBERS:,} files in it")


def find_files(source: Path, scratch: Path, name_of: Callable[[str], str | None], deep: int = 0) -> dict[str, Path]:
    """Copy files out of a folder or archive; raises Refusal if a file cannot be read.

    Args:
        source: a folder, or a tar or zip archive.
        scratch: an empty folder for the copies.
        name_of: returns the copy's name for the last part of a file's name, or None. The first file of a name wins.
        deep: levels of nested archives to search. Unreadable nested archives are skipped.
    """
    found: dict[str, Path] = {}
    for number, (name, copy) in enumerate(_members(source)):
        last = name.replace("\\", "/").rpartition("/")[2]
        wanted = name_of(last)
        inner = deep and wanted is None and last.endswith(ARCHIVES)
        if not inner and (wanted is None or wanted in found):
            continue
        to = scratch / (f".inner-{number}" if inner else wanted or "")
        with _reading(f"{source}: {name} cannot be read"):
            copy(to)
        if not inner:
            found[to.name] = to
            continue
        below = scratch / f".within-{number}"
        below.mkdir()
        with suppress(Refusal):
            found = {**find_files(to, below, name_of, deep - 1), **found}
        to.unlink()
    return found


def read_zipped(folder: Path, name: str, most: int) -> bytes:
    """Return the bytes of a file, gzipped or not; OSError if unreadable, ValueError if missing or too long."""
    if os.path.lexists(folder / name):
        return read_file(folder / name, most)
    zipped = folder / f"{name}.gz"
    if not os.path.lexists(zipped):
        raise ValueError(f"{name} is missing")
    return gunzip(read_file(zipped, most), most)


def gunzip(content: bytes, most: int) -> bytes:
    """Decompress gzipped bytes; ValueError if they are damaged or unpack to more than `most` bytes."""
    try:
        stream = zlib.decompressobj(wbits=31)
        plain = stream.decompress(content, most + 1)
    except zlib.error as error:
        raise ValueError(f"a damaged gzip file: {error}") from None
    if len(plain) > most:
        raise ValueError(f"it unpacks to more than {most:,} bytes")
    if not stream.eof:
        raise ValueError("a damaged gzip file: it ends too early")
    return plain


Member = tuple[str, Callable[[Path], object]]


def _members(source: Path) -> Iterator[Member]:
    """Yield each file's name and a function that copies it, to be called before the next file is taken."""
    if os.path.isdir(source):  # noqa: PTH112 - Path.is_dir raises if the name is too long
        yield from _folder_members(source)
        return
    if not os.path.lexists(source):
        raise Refusal(f"{source}: no such folder or archive")
    with _reading(f"{source}: cannot be read"):
        file = open_file(source)
    with file:
        budget = Budget(str(source), os.fstat(file.fileno()).st_size)
        head = file.read(512)
        file.seek(0)
        with _reading(f"{source}: a damaged archive"):
            decompress = next((kind for magic, kind in _DECOMPRESSORS.items() if head.startswith(magic)), None)
            if decompress or head[257:262] == b"ustar":
                yield from _tar_members(decompress(file) if decompress else file, budget)
            elif head.startswith(b"PK"):
                yield from _zip_members(file, budget)
            else:
                raise Refusal(f"{source}: neither a folder nor a tar or zip archive")


def _folder_members(source: Path) -> Iterator[Member]:
    budget = Budget(str(source), MOST_BYTES)
    with _reading(f"{source}: cannot be read"):
        for folder, folders, names in os.walk(source, onerror=_raise):
            folders.sort()
            for name in sorted(names):
                budget.member()
                path = Path(folder, name)
                yield name, lambda to, path=path: _copy(open_file(path, below=source), to, budget)  # type: ignore[misc]


def _raise(error: OSError) -> None:
    raise error


def _tar_members(stream: Any, budget: Budget) -> Iterator[Member]:
    counted = _Counted(stream, budget)
    with tarfile.open(fileobj=counted, mode="r|", tarinfo=_BoundedHeader) as archive:  # type: ignore[call-overload]
        for member in archive:
            budget.member()
            content = archive.extractfile(member) if member.isreg() else None
            if content:
                yield member.name, partial(_copy, content)


def _zip_members(file: BinaryIO, budget: Budget) -> Iterator[Member]:
    with zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            budget.member()
            if not info.is_dir():
                yield info.filename, partial(_copy_checked, archive, info, budget)


class _Counted:
    def __init__(self, stream: Any, budget: Budget) -> None:
        self._stream = stream
        self._budget = budget

    def read(self, size: int) -> bytes:
        block: bytes = self._stream.read(min(size, BLOCK))
        self._budget.take(len(block))
        return block


class _BoundedHeader(tarfile.TarInfo):
    """A tar header with bounded text: tarfile reads long names and pax records into memory whole."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type not in tarfile.REGULAR_TYPES and self.size > BLOCK:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        return super()._proc_member(archive)  # type: ignore[misc,no-any-return]


def _copy_checked(archive: zipfile.ZipFile, info: zipfile.ZipInfo, budget: Budget, to: Path) -> None:
    """Copy a member of a zip and check its size; zipfile does not notice a member shorter or longer than declared."""
    if _copy(archive.open(info), to, budget) != info.CRC or to.stat().st_size != info.file_size:
        raise zipfile.BadZipFile("its size or its checksum is wrong")


def _copy(content: IO[bytes], to: Path, budget: Budget | None = None) -> int:
    checksum = 0
    with content, to.open("wb") as file:
        while block := content.read(BLOCK):
            if budget:
                budget.take(len(block))
            checksum = zlib.crc32(block, checksum)
            file.write(block)
    return checksum


@contextmanager
def _reading(failed: str) -> Iterator[None]:
    try:
        yield
    except _BROKEN as error:
        raise Refusal(f"{one_line(failed)}: {reason(error)}") from None
